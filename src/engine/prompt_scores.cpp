#include "engine/prompt_scores.h"

#include <algorithm>
#include <numeric>

namespace qwell {

void append_prompt_scores(RankContext& rank, View hidden, int first_row, std::span<const TokenId> tokens, int first, int end, int num_top,
                          PromptLogprobs& scores) {
  if (first == 0) scores.tokens.emplace_back(std::nullopt);
  const int scored_end = std::min(end, static_cast<int>(tokens.size()) - 1);  // the last token's row predicts what is not there yet
  std::vector<std::int32_t> index;
  std::vector<std::int32_t> targets;
  std::vector<SampledToken> results;
  for (int position = first; position < scored_end;) {
    const std::int32_t count = std::min(scored_end - position, RankContext::kHeadRows);
    index.resize(static_cast<std::size_t>(count));
    std::iota(index.begin(), index.end(), first_row + position - first);
    const auto next = tokens.subspan(static_cast<std::size_t>(position) + 1, static_cast<std::size_t>(count));
    targets.assign(next.begin(), next.end());
    results.assign(static_cast<std::size_t>(count), {});
    const View logits = rank.model.logits(hidden, index.data(), count);
    rank.ops->token_logprobs({.logits = logits,
                              .tokens = View(targets.data(), DType::kI32, {count}),
                              .vocab = static_cast<int>(logits.shape[1]),
                              .num_top = num_top,
                              .out = results,
                              .rows = {count, &count}});
    for (std::int32_t i = 0; i < count; ++i) {
      SampledToken& result = results[static_cast<std::size_t>(i)];
      TokenEvent event{.index = position + 1 + i, .token = targets[static_cast<std::size_t>(i)], .logprob = result.logprob, .top = {}};
      for (const auto& [token, logprob] : result.top) event.top.push_back({token, logprob});
      scores.tokens.emplace_back(std::move(event));
    }
    position += count;
  }
}

}  // namespace qwell
