#pragma once
// The bits of the small number formats, one value at a time. Vectorised conversions belong to ops; these are what they must equal.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qwell {

// bfloat16: the upper half of a float32. Plain storage type; arithmetic happens in float.
struct bf16 {
  std::uint16_t bits = 0;
};
static_assert(sizeof(bf16) == 2);

inline float to_float(bf16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN (quiet), values beyond the range become infinity.
inline bf16 to_bf16(float v) {
  const auto u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffffU) > 0x7f800000U) return bf16{static_cast<std::uint16_t>((u >> 16) | 0x0040U)};
  return bf16{static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

// IEEE half, for reading files that use it.
inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1fU;
  const std::uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -v : v;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// e4m3fn: 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity; 0x7f and 0xff are NaN; largest value 448.
inline float e4m3_to_float(std::uint8_t b) {
  const int exponent = (b >> 3) & 0xf;
  const int mantissa = b & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9) : std::ldexp(1.0F + static_cast<float>(mantissa) / 8.0F, exponent - 7);
  return (b & 0x80) != 0 ? -magnitude : magnitude;
}

// Round to nearest, ties to even; saturates at +-448; NaN gives 0x7f with the sign kept.
inline std::uint8_t float_to_e4m3(float v) {
  const auto u = std::bit_cast<std::uint32_t>(v);
  const auto sign = static_cast<std::uint8_t>((u >> 24) & 0x80U);
  const float a = std::fabs(v);
  if (std::isnan(v)) return static_cast<std::uint8_t>(sign | 0x7f);
  if (a >= 448.0F) return static_cast<std::uint8_t>(sign | 0x7e);
  if (a < 0.015625F) {  // below the smallest normal value 2^-6: steps of 2^-9
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(std::nearbyint(a * 512.0F)));
  }
  std::uint32_t m = std::bit_cast<std::uint32_t>(a);
  m += 0x7ffffU + ((m >> 20) & 1U);
  const auto exponent = static_cast<int>(m >> 23) - 127 + 7;
  return static_cast<std::uint8_t>(sign | (exponent << 3) | ((m >> 20) & 7U));
}

// e8m0: a power of two, 2^(b-127); 255 is NaN.
inline float e8m0_to_float(std::uint8_t b) {
  return b == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, static_cast<int>(b) - 127);
}

// e2m1 (fp4), the low four bits of `nibble`.
inline float e2m1_to_float(std::uint8_t nibble) {
  constexpr float kValues[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kValues[nibble & 7];
  return (nibble & 8) != 0 ? -magnitude : magnitude;
}

}  // namespace qwell
