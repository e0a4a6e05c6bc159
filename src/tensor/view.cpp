#include "tensor/view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

namespace qwell {

std::string_view to_string(DType t) {
  switch (t) {
    case DType::kF32: return "F32";
    case DType::kBf16: return "BF16";
    case DType::kF16: return "F16";
    case DType::kF64: return "F64";
    case DType::kE4m3: return "F8_E4M3";
    case DType::kE8m0: return "F8_E8M0";
    case DType::kU8: return "U8";
    case DType::kI8: return "I8";
    case DType::kI32: return "I32";
    case DType::kI64: return "I64";
    case DType::kBool: return "BOOL";
  }
  return "?";
}

View::View(void* data_in, DType dtype_in, std::initializer_list<std::int64_t> shape_in)
    : data(data_in), dtype(dtype_in), rank(static_cast<int>(shape_in.size())) {
  QWELL_CHECK(rank <= kRankMax, "rank {}", rank);
  std::size_t i = 0;
  for (const std::int64_t n : shape_in) shape[i++] = n;
  std::int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    stride[static_cast<std::size_t>(d)] = step;
    step *= shape[static_cast<std::size_t>(d)];
  }
}

std::int64_t View::elements() const {
  std::int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= shape[static_cast<std::size_t>(d)];
  return n;
}

bool View::dense() const {
  std::int64_t step = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    if (shape[i] != 1 && stride[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

View View::rows(std::int64_t first, std::int64_t count) const {
  QWELL_CHECK(rank > 0 && first >= 0 && count >= 0 && first + count <= shape[0], "rows {}+{} of {}", first, count, shape_text());
  View v = *this;
  v.data = at_bytes(first * stride[0]);
  v.shape[0] = count;
  return v;
}

View View::operator[](std::int64_t i) const {
  QWELL_CHECK(rank > 0 && i >= 0 && i < shape[0], "index {} of {}", i, shape_text());
  View v;
  v.data = at_bytes(i * stride[0]);
  v.dtype = dtype;
  v.rank = rank - 1;
  for (int d = 1; d < rank; ++d) {
    v.shape[static_cast<std::size_t>(d - 1)] = shape[static_cast<std::size_t>(d)];
    v.stride[static_cast<std::size_t>(d - 1)] = stride[static_cast<std::size_t>(d)];
  }
  return v;
}

std::string View::shape_text() const {
  return fmt::format("[{}]", fmt::join(std::span(shape.data(), static_cast<std::size_t>(rank)), ", "));
}

}  // namespace qwell
