#pragma once
// One element of an activation buffer, whatever its type. For code where speed is of no interest.

#include <cstdint>

#include "base/bits.h"
#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace qwell {

inline float load_element(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  QWELL_CHECK(dtype == DType::kBf16, "activations of type {}", to_string(dtype));
  return to_float(static_cast<const bf16*>(data)[i]);
}

inline void store_element(void* data, DType dtype, std::int64_t i, float v) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[i] = v;
    return;
  }
  QWELL_CHECK(dtype == DType::kBf16, "activations of type {}", to_string(dtype));
  static_cast<bf16*>(data)[i] = to_bf16(v);
}

// Row `row` of a [T, ...] buffer whose rows are dense.
inline void* row_data(const View& v, std::int64_t row) { return v.at_bytes(row * v.stride[0]); }

// `v` rounded to the type.
inline float rounded(DType dtype, float v) { return dtype == DType::kBf16 ? to_float(to_bf16(v)) : v; }

}  // namespace qwell
