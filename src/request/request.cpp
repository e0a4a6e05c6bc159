#include "request/request.h"

#include <cmath>

namespace qwell {
namespace {

Failure invalid(const char* param, std::string message) { return Failure{FailureCode::kInvalidArgument, std::move(message), param}; }

// NaN is outside every range.
bool within(double v, double low, double high) { return v >= low && v <= high; }

Result<void> validate_sampling(const SamplingParams& p, int vocab_size) {
  if (!within(p.temperature, 0, 100)) return invalid("temperature", fmt::format("temperature must be in [0, 100], got {}", p.temperature));
  if (!(p.top_p > 0 && p.top_p <= 1)) return invalid("top_p", fmt::format("top_p must be in (0, 1], got {}", p.top_p));
  if (p.top_k < 0) return invalid("top_k", fmt::format("top_k must be at least 1, or 0 for off, got {}", p.top_k));
  if (!within(p.min_p, 0, 1)) return invalid("min_p", fmt::format("min_p must be in [0, 1], got {}", p.min_p));
  if (!within(p.presence_penalty, -2, 2)) {
    return invalid("presence_penalty", fmt::format("presence_penalty must be in [-2, 2], got {}", p.presence_penalty));
  }
  if (!within(p.frequency_penalty, -2, 2)) {
    return invalid("frequency_penalty", fmt::format("frequency_penalty must be in [-2, 2], got {}", p.frequency_penalty));
  }
  if (!(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty))) {
    return invalid("repetition_penalty", fmt::format("repetition_penalty must be above 0, got {}", p.repetition_penalty));
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return invalid("logit_bias", fmt::format("logit_bias names token {}, the vocabulary has {}", token, vocab_size));
    }
    if (!within(bias, -100, 100)) return invalid("logit_bias", fmt::format("logit_bias must be in [-100, 100], got {}", bias));
  }
  return {};
}

}  // namespace

Result<void> validate(const GenerationRequest& request, int vocab_size, int context_length_max) {
  if (auto result = validate_sampling(request.sampling, vocab_size); !result) return result;
  if (request.prompt.empty()) return invalid("prompt", "the prompt has no tokens");
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= vocab_size) {
      return invalid("prompt", fmt::format("the prompt has token {}, the vocabulary has {}", token, vocab_size));
    }
  }
  if (request.max_tokens < 0) return invalid("max_tokens", fmt::format("max_tokens must not be negative, got {}", request.max_tokens));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return invalid("min_tokens", fmt::format("min_tokens must be in [0, max_tokens], got {}", request.min_tokens));
  }
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  // The last token of an answer needs no place in the context.
  const std::int64_t wanted = length + (request.max_tokens > 0 ? 1 : 0);
  if (wanted > context_length_max) {
    return invalid("prompt", fmt::format("this model's maximum context length is {} tokens, but the prompt has {}{}", context_length_max,
                                         length, request.max_tokens > 0 ? " and at least one is to be generated" : ""));
  }
  return {};
}

RequestTiming& RequestTiming::operator+=(const RequestTiming& other) {
  queued += other.queued;
  prefill += other.prefill;
  transfer += other.transfer;
  decode += other.decode;
  kv_bytes_moved += other.kv_bytes_moved;
  kv_bytes_shared += other.kv_bytes_shared;
  preemptions += other.preemptions;
  return *this;
}

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

}  // namespace qwell
