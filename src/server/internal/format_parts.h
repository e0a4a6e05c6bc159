#pragma once
// JSON pieces that both response schemas share.

#include <string_view>

#include "base/json.h"
#include "server/answer_format.h"

namespace qwell::server {

void write_usage(JsonWriter& w, const Usage& usage);
void write_usage_field(JsonWriter& w, const AnswerHead& head, const Usage* usage);
void write_token_ids(JsonWriter& w, std::string_view name, const std::vector<AnswerToken>& tokens);
void write_token_ids(JsonWriter& w, std::string_view name, const std::vector<TokenId>& tokens);
void write_head(JsonWriter& w, const AnswerHead& head, std::string_view object);
// finish_reason and stop_reason; both null while the answer goes on.
void write_ending(JsonWriter& w, const Ending* ending);
// vLLM's form: null for the first token, then {"<id>": {"logprob", "rank", "decoded_token"}, ...} for the token and the best.
void write_prompt_logprobs(JsonWriter& w, const PromptLogprobs& logprobs, int wanted, const TextCodec& codec);

}  // namespace qwell::server
