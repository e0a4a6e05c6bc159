#include "checkpoint/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/bits.h"
#include "base/check.h"
#include "base/error.h"

namespace qwell {
namespace {

constexpr int kScaleBlock = 128;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// A value per code, since the elements are many and the codes few.
const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v{};
    for (std::size_t b = 0; b < v.size(); ++b) v[b] = e4m3_to_float(static_cast<std::uint8_t>(b));
    return v;
  }();
  return values;
}

// Elements of one dtype, one after the other, as fp32.
template <class T, class Convert>
void convert_run(const std::byte* from, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = convert(load<T>(from + i * sizeof(T)));
}

void load_run(DType dtype, const std::byte* from, std::span<float> out) {
  switch (dtype) {
    case DType::kF32: return convert_run<float>(from, out, [](float v) { return v; });
    case DType::kBf16: return convert_run<bf16>(from, out, [](bf16 v) { return to_float(v); });
    case DType::kF16: return convert_run<std::uint16_t>(from, out, [](std::uint16_t v) { return half_to_float(v); });
    case DType::kF64: return convert_run<double>(from, out, [](double v) { return static_cast<float>(v); });
    case DType::kE4m3: return convert_run<std::uint8_t>(from, out, [&values = e4m3_values()](std::uint8_t v) { return values[v]; });
    default: QWELL_CHECK(false, "{}", to_string(dtype));
  }
}

float scale_at(const StoredMatrix& m, int row, int column) {
  const std::int64_t index = row / kScaleBlock * m.scales->shape[1] + column / kScaleBlock;
  float scale = 0;
  load_run(m.scales->dtype, m.scales->data.data() + index * size_of(m.scales->dtype), {&scale, 1});
  return scale;
}

// Multiplies elements [first, first + values.size()) of a row by their blocks' scales.
void scale_run(const StoredMatrix& m, int row, int first, std::span<float> values) {
  for (std::size_t i = 0; i < values.size();) {
    const int column = first + static_cast<int>(i);
    const auto in_block = static_cast<std::size_t>(kScaleBlock - column % kScaleBlock);
    const std::size_t end = std::min(values.size(), i + in_block);
    const float scale = scale_at(m, row, column);
    for (; i < end; ++i) values[i] *= scale;
  }
}

// A weight that is no number makes every answer one: refused where it is read, by name. (Integer tests, for they vectorise.)
void refuse_non_finite(const StoredMatrix& m, int row, int first, View out, std::int64_t at, int count) {
  bool bad = false;
  if (out.dtype == DType::kBf16) {
    for (int i = 0; i < count; ++i) bad |= (out.as<bf16>()[at + i].bits & 0x7f80U) == 0x7f80U;
  } else {
    for (int i = 0; i < count; ++i) bad |= (std::bit_cast<std::uint32_t>(out.as<float>()[at + i]) & 0x7f800000U) == 0x7f800000U;
  }
  if (!bad) return;
  int i = 0;
  while (std::isfinite(out.dtype == DType::kBf16 ? to_float(out.as<bf16>()[at + i]) : out.as<float>()[at + i])) ++i;
  fail("{}: tensor \"{}\": element {}: not a finite number in {}", m.tensor->file, m.tensor->name,
       m.offset + std::int64_t{row} * m.columns + first + i, to_string(out.dtype));
}

}  // namespace

void check_readable(const StoredMatrix& m) {
  const TensorView& tensor = *m.tensor;
  const DType dtype = tensor.dtype;
  if (dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF64) return;
  if (dtype != DType::kE4m3 || m.scales == nullptr) {
    fail("{}: tensor \"{}\": dtype {}{}: F32, BF16, F16, F64, or F8_E4M3 with scales is wanted", tensor.file, tensor.name, to_string(dtype),
         dtype == DType::kE4m3 ? " without a scale tensor" : "");
  }
  const std::vector<std::int64_t> shape = {(std::int64_t{m.rows} + kScaleBlock - 1) / kScaleBlock,
                                           (std::int64_t{m.columns} + kScaleBlock - 1) / kScaleBlock};
  const TensorView& scales = *m.scales;
  if (scales.shape != shape || (scales.dtype != DType::kF32 && scales.dtype != DType::kBf16)) {
    fail("{}: tensor \"{}\": {} {}, F32 or BF16 [{}, {}] is wanted: one scale for each {}x{} block of {}", scales.file, scales.name,
         to_string(scales.dtype), scales.shape_text(), shape[0], shape[1], kScaleBlock, kScaleBlock, tensor.shape_text());
  }
}

void read_part(const StoredMatrix& m, Range rows, Range columns, View out) {
  check_readable(m);
  const DType dtype = m.tensor->dtype;
  const std::int64_t step = size_of(dtype);
  QWELL_CHECK(
      rows.first >= 0 && rows.count >= 0 && rows.end() <= m.rows && columns.first >= 0 && columns.count >= 0 && columns.end() <= m.columns,
      "{} of [{}, {}]", m.tensor->name, m.rows, m.columns);
  QWELL_CHECK((m.offset + std::int64_t{m.rows} * m.columns) * step <= static_cast<std::int64_t>(m.tensor->data.size()),
              "{}: [{}, {}] from {}", m.tensor->name, m.rows, m.columns, m.offset);
  QWELL_CHECK(out.dense() && out.elements() == std::int64_t{rows.count} * columns.count, "{} for {} x {}", out.shape_text(), rows.count,
              columns.count);
  QWELL_CHECK(out.dtype == DType::kF32 || out.dtype == DType::kBf16, "{}", to_string(out.dtype));
  std::vector<float> values(out.dtype == DType::kBf16 && dtype != DType::kBf16 ? static_cast<std::size_t>(columns.count) : 0);
  for (int r = 0; r < rows.count; ++r) {
    const int row = rows.first + r;
    const std::byte* from = m.tensor->data.data() + (m.offset + std::int64_t{row} * m.columns + columns.first) * step;
    const std::int64_t at = std::int64_t{r} * columns.count;
    if (dtype == out.dtype) {
      if (columns.count > 0) std::memcpy(out.at_bytes(at), from, static_cast<std::size_t>(columns.count * step));
    } else {
      const std::span<float> run =
          out.dtype == DType::kF32 ? std::span(out.as<float>() + at, static_cast<std::size_t>(columns.count)) : std::span(values);
      load_run(dtype, from, run);
      if (dtype == DType::kE4m3) scale_run(m, row, columns.first, run);
      for (std::size_t c = 0; c < values.size(); ++c) out.as<bf16>()[at + static_cast<std::int64_t>(c)] = to_bf16(values[c]);
    }
    refuse_non_finite(m, row, columns.first, out, at, columns.count);
  }
}

}  // namespace qwell
