#pragma once
// Element types of tensors, in files and in memory.

#include <cstdint>
#include <string_view>

namespace qwell {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kF64, kE4m3, kE8m0, kU8, kI8, kI32, kI64, kBool };

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    default: return 1;
  }
}

// The name that safetensors uses: "F32", "BF16", "F8_E4M3", ...
std::string_view to_string(DType t);

}  // namespace qwell
