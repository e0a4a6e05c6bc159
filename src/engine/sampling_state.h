#pragma once
// What sampling remembers of one sequence: which tokens stand in prompt and answer (penalties), which may not be chosen yet (min_tokens).

#include <map>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "request/request.h"

namespace qwell {

class SamplingState {
 public:
  // `tokens`: prompt and answer so far, of which the first prompt_length are the prompt.
  SamplingState(const GenerationRequest& request, std::span<const TokenId> tokens, int prompt_length, int vocab_size);

  // Notes that `token` was chosen.
  void append(TokenId token);
  // How the token after `length` tokens is sampled, `generated` of them the answer's. Valid until the next call.
  SampleRow row(int length, int generated);

 private:
  const GenerationRequest& request_;
  const int vocab_size_;
  const bool penalises_;
  std::map<TokenId, LogitChange> changes_;
  std::vector<LogitChange> flat_;  // changes_ in order; rebuilt when stale
  bool flat_stale_ = true;
  std::vector<std::uint32_t> no_stops_;  // mask of all tokens but the stop ids; empty without min_tokens
};

}  // namespace qwell
