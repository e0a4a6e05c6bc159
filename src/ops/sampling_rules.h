#pragma once
// The parts of sampling that all backends must agree on exactly.

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "ops/ops.h"

namespace qwell {

// Four tokens share one Philox call: counter (token / 4, position, sample, 0), word token % 4.
inline PhiloxCounter gumbel_bits(const SampleRow& row, std::int32_t token) {
  return philox({static_cast<std::uint32_t>(token) / 4, row.position, row.sample, 0},
                {static_cast<std::uint32_t>(row.seed), static_cast<std::uint32_t>(row.seed >> 32)});
}

// -log(-log(1 - u)) with u = (bits + 1/2) / 2^32: the large values, which decide, come from small u, where a float has all 32 bits.
inline float gumbel_from_bits(std::uint32_t bits) {
  const float u = (static_cast<float>(bits) + 0.5F) * 0x1p-32F;
  return -std::log(-std::log1p(-std::fmin(u, 0x1.fffffep-1F)));
}

// The noise of a token: standard Gumbel, a pure function of (seed, sample, position, token).
inline float gumbel_noise(const SampleRow& row, std::int32_t token) {
  return gumbel_from_bits(gumbel_bits(row, token)[static_cast<std::uint32_t>(token) % 4]);
}

// No noise exceeds this: it is what bits = 0 gives, rounded up.
constexpr float kGumbelMax = 22.88F;

// repetition_penalty on tokens of prompt or answer (divides what is positive, multiplies what is not), then the penalties by count in the
// answer, then the bias.
inline float changed_logit(float z, const LogitChange& change, const SampleRow& row) {
  if (change.seen) z = z > 0 ? z / row.repetition_penalty : z * row.repetition_penalty;
  if (change.count > 0) z -= row.presence_penalty + row.frequency_penalty * change.count;
  return z + change.bias;
}

inline bool mask_allows(const SampleRow& row, std::int32_t token) {
  return row.allowed == nullptr || ((row.allowed[token / 32] >> (token % 32)) & 1U) != 0;
}

}  // namespace qwell
