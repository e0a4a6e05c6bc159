#include "server/internal/format_parts.h"

#include <algorithm>

namespace qwell::server {

void write_usage(JsonWriter& w, const Usage& u) {
  w.begin_object().field("prompt_tokens", u.prompt_tokens).field("completion_tokens", u.completion_tokens);
  w.field("total_tokens", u.prompt_tokens + u.completion_tokens);
  w.key("prompt_tokens_details").begin_object().field("cached_tokens", u.cached_tokens).end_object();
  w.key("timings").begin_object().field("queued_s", u.timing.queued).field("prefill_s", u.timing.prefill);
  w.field("transfer_s", u.timing.transfer).field("decode_s", u.timing.decode).field("kv_bytes_moved", u.timing.kv_bytes_moved);
  w.field("kv_bytes_shared", u.timing.kv_bytes_shared).field("preemptions", u.timing.preemptions).end_object();
  w.end_object();
}

void write_usage_field(JsonWriter& w, const AnswerHead& head, const Usage* usage) {
  if (!head.usage_in_chunks) return;
  w.key("usage");
  if (usage == nullptr) {
    w.null();
  } else {
    write_usage(w, *usage);
  }
}

void write_token_ids(JsonWriter& w, std::string_view name, const std::vector<AnswerToken>& tokens) {
  w.key(name).begin_array();
  for (const auto& t : tokens) w.value(t.event.token);
  w.end_array();
}

void write_token_ids(JsonWriter& w, std::string_view name, const std::vector<TokenId>& tokens) {
  w.key(name).begin_array();
  for (const TokenId t : tokens) w.value(t);
  w.end_array();
}

void write_head(JsonWriter& w, const AnswerHead& head, std::string_view object) {
  w.begin_object().field("id", head.id).field("object", object).field("created", head.created).field("model", head.model);
}

void write_ending(JsonWriter& w, const Ending* ending) {
  w.key("finish_reason");
  ending == nullptr ? w.null() : w.value(ending->finish_reason);
  w.key("stop_reason");
  if (ending != nullptr && !ending->stop_string.empty()) {
    w.value(ending->stop_string);
  } else if (ending != nullptr && ending->stop_token) {
    w.value(*ending->stop_token);
  } else {
    w.null();
  }
}

void write_prompt_logprobs(JsonWriter& w, const PromptLogprobs& logprobs, int wanted, const TextCodec& codec) {
  w.begin_array();
  for (const auto& entry : logprobs) {
    if (!entry) {
      w.null();
      continue;
    }
    w.begin_object();
    const auto write = [&](TokenId token, float logprob, std::optional<std::int64_t> rank) {
      w.key(std::to_string(token)).begin_object().field("logprob", static_cast<double>(logprob)).key("rank");
      rank ? w.value(*rank) : w.null();
      w.field("decoded_token", codec.token_bytes(token)).end_object();
    };
    const auto& top = entry->top;
    const auto own = std::find_if(top.begin(), top.end(), [&](const TokenLogprob& t) { return t.token == entry->token; });
    std::optional<std::int64_t> rank;
    if (own != top.end()) rank = own - top.begin() + 1;
    write(entry->token, entry->logprob, rank);
    const auto n = std::min(top.size(), static_cast<std::size_t>(std::max(wanted, 0)));
    for (std::size_t i = 0; i < n; ++i) {
      if (top[i].token != entry->token) write(top[i].token, top[i].logprob, static_cast<std::int64_t>(i) + 1);
    }
    w.end_object();
  }
  w.end_array();
}

}  // namespace qwell::server
