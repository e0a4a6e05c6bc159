#pragma once
// The API's requests as typed values, and the pure functions that read them from JSON.
//
// Rules of all parsers: unknown fields are ignored; null equals absent; a wrong type or a value out of range is kInvalidArgument whose
// `param` is the top-level field (the message has the place inside it); of duplicate keys the last wins. Accepted borders: temperature 0 is
// greedy, top_k 0 and -1 are off. What this server cannot do yet and could not ignore honestly is refused: response_format other than text,
// guided_* and structured_outputs, tool_choice "required" or a named function, suffix, best_of other than n, beam search, audio, images.
// `tools` with tool_choice "auto" or "none" are given to the template, and the model's answer is returned as plain content.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "request/request.h"
#include "server/text_codec.h"

namespace qwell::server {

struct ApiLimits {
  int n_max = 128;
  int choices_max = 1024;     // prompts times n
  int prompts_max = 256;      // of one completions request
  int logprobs_max = 20;      // alternatives per token (--max-logprobs)
  int stops_max = 64;         // OpenAI allows 4; more are accepted here
  int stop_bytes_max = 4096;  // each
  int stop_token_ids_max = 1024;
  int logit_bias_max = 4096;  // entries
  int tools_max = 1024;
};

struct ApiOptions {
  ApiLimits limits;
  SamplingParams defaults;  // for fields that a request does not give (from the model's generation_config)
};

// What chat and completions share.
struct GenerationOptions {
  std::string model;  // meaningful if has_model
  bool has_model = false;
  int n = 1;
  std::optional<std::int64_t> max_tokens;  // max_completion_tokens wins over max_tokens
  std::int64_t min_tokens = 0;             // text before so many tokens is not searched for stop strings
  SamplingParams sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stops;
  bool include_stop = false;  // include_stop_str_in_output
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  int logprobs = -1;         // as in GenerationRequest: -1 none, else alternatives per token
  int prompt_logprobs = -1;  // the extension of that name, not echo
  bool return_token_ids = false;
  std::string cache_salt;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
};

struct ChatRequest {
  GenerationOptions options;
  ChatInput chat;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  GenerationOptions options;  // max_tokens is always set: 16 by default; 0 only with echo
  std::vector<Prompt> prompts;
  bool echo = false;
  bool add_special_tokens = true;
};

struct TokenizeRequest {
  std::string model;
  bool has_model = false;
  std::variant<std::string, ChatInput> input;
  bool add_special_tokens = true;  // of text; a chat template says itself what it wants
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  bool has_model = false;
  std::vector<TokenId> tokens;
};

Result<ChatRequest> parse_chat_request(const json::value& body, const ApiOptions& options);
Result<CompletionRequest> parse_completion_request(const json::value& body, const ApiOptions& options);
Result<TokenizeRequest> parse_tokenize_request(const json::value& body, const ApiOptions& options);
Result<DetokenizeRequest> parse_detokenize_request(const json::value& body);

}  // namespace qwell::server
