#include <algorithm>
#include <cmath>
#include <numbers>

#include "checkpoint/config.h"

namespace qwell {

std::vector<double> rope_inverse_frequencies(const RopeConfig& rope) {
  const int half = rope.rotary_dim / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (int j = 0; j < half; ++j) frequencies[static_cast<std::size_t>(j)] = std::pow(rope.theta, -2.0 * j / rope.rotary_dim);
  if (rope.kind == RopeConfig::Kind::kDefault) return frequencies;
  // YaRN (Peng et al., 2023): slow dimensions are interpolated, fast ones kept, with a ramp between.
  const auto corrected = [&](double beta) {
    return rope.rotary_dim * std::log(rope.original_max_position / (2 * std::numbers::pi * beta)) / (2 * std::log(rope.theta));
  };
  double low = corrected(rope.beta_fast);
  double high = corrected(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  for (int j = 0; j < half; ++j) {
    const double ramp = std::clamp((j - low) / (high - low), 0.0, 1.0);
    double& f = frequencies[static_cast<std::size_t>(j)];
    f = f * (1 - ramp) + f / rope.factor * ramp;
  }
  return frequencies;
}

double rope_attention_factor(const RopeConfig& rope) {
  if (rope.kind == RopeConfig::Kind::kDefault) return 1;
  if (rope.attention_factor > 0) return rope.attention_factor;
  const auto scaled = [&](double mscale) { return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1; };
  if (rope.mscale > 0 && rope.mscale_all_dim > 0) return scaled(rope.mscale) / scaled(rope.mscale_all_dim);
  return scaled(1);
}

}  // namespace qwell
