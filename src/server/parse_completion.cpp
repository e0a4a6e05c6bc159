#include "server/internal/parse.h"

namespace qwell::server {
namespace {

void parse_prompts(FieldReader& reader, const ApiLimits& limits, std::vector<Prompt>& out) {
  const auto* const prompt = reader.find("prompt");
  if (prompt == nullptr) return reader.fail("prompt", "prompt is missing");
  if (prompt->is_string()) {
    out.emplace_back(std::string(prompt->get_string()));
    return;
  }
  if (!prompt->is_array()) {
    return reader.fail("prompt",
                       fmt::format("prompt must be text, a list of texts, token ids or a list of those, got {}", kind_name(*prompt)));
  }
  const auto& items = prompt->get_array();
  if (items.empty()) return reader.fail("prompt", "prompt must not be empty");
  if (items[0].is_number()) {
    out.emplace_back(parse_token_ids(reader, "prompt", items));
    return;
  }
  if (items.size() > static_cast<std::size_t>(limits.prompts_max)) {
    return reader.fail("prompt", fmt::format("at most {} prompts are allowed, got {}", limits.prompts_max, items.size()));
  }
  const bool texts = items[0].is_string();
  for (const auto& item : items) {
    if (texts && item.is_string()) {
      out.emplace_back(std::string(item.get_string()));
    } else if (!texts && item.is_array()) {
      out.emplace_back(parse_token_ids(reader, "prompt", item.get_array()));
    } else {
      return reader.fail("prompt",
                         fmt::format("prompt[{}] is {}: prompts must be all texts or all lists of token ids", out.size(), kind_name(item)));
    }
  }
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const json::value& body, const ApiOptions& options) {
  const auto object = object_of(body);
  if (!object) return object.failure();
  FieldReader reader(**object);
  CompletionRequest out;
  auto& o = out.options;
  o = parse_generation_options(reader, options);
  if (!o.max_tokens) o.max_tokens = std::max<std::int64_t>(16, o.min_tokens);
  out.echo = reader.boolean("echo", false);
  if (o.max_tokens == 0 && !out.echo) reader.fail("max_tokens", "max_tokens must be at least 1 without echo, got 0");
  out.add_special_tokens = reader.boolean("add_special_tokens", true);
  if (const auto logprobs = reader.integer("logprobs", 0, options.limits.logprobs_max)) o.logprobs = static_cast<int>(*logprobs);
  if (const auto best = reader.integer("best_of", 1, options.limits.n_max); best && *best != o.n) {
    reader.fail("best_of", "best_of other than n is not supported by this server");
  }
  if (!reader.string("suffix").empty()) reader.fail("suffix", "suffix is not supported by this model");
  parse_prompts(reader, options.limits, out.prompts);
  if (!reader.ok()) return reader.failure();
  const auto choices = static_cast<std::int64_t>(out.prompts.size()) * o.n;
  if (choices > options.limits.choices_max) {
    return Failure{FailureCode::kInvalidArgument,
                   fmt::format("at most {} choices are allowed, got {}", options.limits.choices_max, choices), "n"};
  }
  return out;
}

Result<TokenizeRequest> parse_tokenize_request(const json::value& body, const ApiOptions& options) {
  const auto object = object_of(body);
  if (!object) return object.failure();
  FieldReader reader(**object);
  TokenizeRequest out;
  out.has_model = reader.find("model") != nullptr;
  out.model = reader.string("model");
  const bool chat = reader.find("messages") != nullptr;
  if (chat && reader.find("prompt") != nullptr) reader.fail("prompt", "give prompt or messages, not both");
  if (chat) {
    out.input = parse_chat_input(reader, options.limits);
  } else if (reader.find("prompt") == nullptr) {
    reader.fail("prompt", "prompt is missing");
  } else {
    out.input = reader.string("prompt");
  }
  out.add_special_tokens = reader.boolean("add_special_tokens", true);
  out.return_token_strs = reader.boolean("return_token_strs", false);
  if (!reader.ok()) return reader.failure();
  return out;
}

Result<DetokenizeRequest> parse_detokenize_request(const json::value& body) {
  const auto object = object_of(body);
  if (!object) return object.failure();
  FieldReader reader(**object);
  DetokenizeRequest out;
  out.has_model = reader.find("model") != nullptr;
  out.model = reader.string("model");
  const auto* const tokens = reader.array("tokens");
  if (tokens == nullptr) {
    reader.fail("tokens", "tokens is missing");
  } else {
    out.tokens = parse_token_ids(reader, "tokens", *tokens);
  }
  if (!reader.ok()) return reader.failure();
  return out;
}

}  // namespace qwell::server
