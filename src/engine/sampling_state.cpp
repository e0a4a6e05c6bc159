#include "engine/sampling_state.h"

namespace qwell {
namespace {

bool has_penalties(const SamplingParams& p) { return p.presence_penalty != 0 || p.frequency_penalty != 0 || p.repetition_penalty != 1; }

}  // namespace

SamplingState::SamplingState(const GenerationRequest& request, std::span<const TokenId> tokens, int prompt_length, int vocab_size)
    : request_(request), vocab_size_(vocab_size), penalises_(has_penalties(request.sampling)) {
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    LogitChange& change = changes_[token];
    change.token = token;
    change.bias += bias;
  }
  if (penalises_) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      LogitChange& change = changes_[tokens[i]];
      change.token = tokens[i];
      change.seen = true;
      if (static_cast<int>(i) >= prompt_length) change.count += 1;
    }
  }
  if (request.min_tokens > 0) {
    no_stops_.assign(static_cast<std::size_t>(vocab_size + 31) / 32, ~0U);
    for (const TokenId token : request.stop_token_ids) {
      if (token >= 0 && token < vocab_size) no_stops_[static_cast<std::size_t>(token) / 32] &= ~(1U << (token % 32));
    }
  }
}

void SamplingState::append(TokenId token) {
  if (!penalises_) return;
  LogitChange& change = changes_[token];
  change.token = token;
  change.seen = true;
  change.count += 1;
  flat_stale_ = true;
}

SampleRow SamplingState::row(int length, int generated) {
  if (flat_stale_) {
    flat_.clear();
    for (const auto& [token, change] : changes_) flat_.push_back(change);
    flat_stale_ = false;
  }
  const SamplingParams& p = request_.sampling;
  return {.temperature = p.temperature,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty,
          .repetition_penalty = p.repetition_penalty,
          .top_k = p.top_k,
          .seed = p.seed,
          .sample = p.sample,
          .position = static_cast<std::uint32_t>(length),
          .changes = flat_,
          .allowed = generated < request_.min_tokens ? no_stops_.data() : nullptr,
          .vocab = vocab_size_,
          .num_logprobs = request_.logprobs};
}

}  // namespace qwell
