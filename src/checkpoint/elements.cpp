#include "checkpoint/elements.h"

#include <array>
#include <cstring>

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

float element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32: return load<float>(at);
    case DType::kBf16: return to_float(load<bf16>(at));
    case DType::kF16: return half_to_float(load<std::uint16_t>(at));
    case DType::kF64: return static_cast<float>(load<double>(at));
    default: return e4m3_to_float(load<std::uint8_t>(at));
  }
}

float scale_at(const StoredMatrix& m, int row, int column) {
  const std::int64_t per_row = m.scales->shape[1];
  const std::int64_t index = row / kScaleBlock * per_row + column / kScaleBlock;
  return element(m.scales->dtype, m.scales->data.data() + index * size_of(m.scales->dtype));
}

void put(View out, std::int64_t i, float value) {
  if (out.dtype == DType::kF32) {
    out.as<float>()[i] = value;
  } else {
    out.as<bf16>()[i] = to_bf16(value);
  }
}

}  // namespace

void read_part(const StoredMatrix& m, Range rows, Range columns, View out) {
  QWELL_CHECK(rows.first >= 0 && rows.end() <= m.rows && columns.first >= 0 && columns.end() <= m.columns, "{} of [{}, {}]", m.tensor->name, m.rows,
              m.columns);
  QWELL_CHECK(out.dense() && out.elements() == std::int64_t{rows.count} * columns.count, "{} for {} x {}", out.shape_text(), rows.count, columns.count);
  const DType dtype = m.tensor->dtype;
  const bool floats = dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16 || dtype == DType::kF64;
  if (!floats && !(dtype == DType::kE4m3 && m.scales != nullptr)) {
    fail("{}: tensor \"{}\": dtype {}{}: F32, BF16, F16, or F8_E4M3 with scales is wanted", m.tensor->file, m.tensor->name, to_string(dtype),
         dtype == DType::kE4m3 ? " without a scale tensor" : "");
  }
  const std::int64_t step = size_of(dtype);
  for (int r = 0; r < rows.count; ++r) {
    const std::byte* from = m.tensor->data.data() + (m.offset + std::int64_t{rows.first + r} * m.columns + columns.first) * step;
    const std::int64_t first = std::int64_t{r} * columns.count;
    if (dtype == out.dtype) {
      std::memcpy(out.at_bytes(first), from, static_cast<std::size_t>(columns.count * step));
      continue;
    }
    for (int c = 0; c < columns.count; ++c) {
      float value = element(dtype, from + c * step);
      if (m.scales != nullptr) value *= scale_at(m, rows.first + r, columns.first + c);
      put(out, first + c, value);
    }
  }
}

}  // namespace qwell
