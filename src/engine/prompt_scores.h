#pragma once
// Logprobs of a prompt's own tokens, computed where its rows are.

#include <span>

#include "engine/rank_context.h"
#include "engine/work.h"

namespace qwell {

// Appends to `scores` the entries of tokens[first + 1 .. end] (as far as there are such tokens): row first_row + i of `hidden` stands at
// position first + i and predicts the token after it. The first token's entry, which has no value, is added when first is 0.
void append_prompt_scores(RankContext& rank, View hidden, int first_row, std::span<const TokenId> tokens, int first, int end, int num_top,
                          PromptLogprobs& scores);

}  // namespace qwell
