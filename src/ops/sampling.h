#pragma once
// Choosing tokens from a row of logits. One implementation for all CPU backends: it is arithmetic on one row, in a fixed order.

#include "ops/ops.h"

namespace qwell {

// Room that a sampler keeps between rows. One per thread.
struct SamplingScratch {
  std::vector<float> logits;
  std::vector<float> exponentials;
  std::vector<std::int32_t> order;
};

// `logits` fp32 [row.vocab or more]. See SampleRow for the rule.
SampledToken sample_row(const float* logits, const SampleRow& row, SamplingScratch& scratch);

// The token's log-probability and the `num_top` best, at temperature 1.
SampledToken score_row(const float* logits, int vocab, std::int32_t token, int num_top, SamplingScratch& scratch);

}  // namespace qwell
