#include "server/internal/prepare.h"

#include <algorithm>

namespace qwell::server {
namespace {

// As an ApiError that names `param` unless the failure names its own.
ApiError refused(Failure failure, std::string_view param) {
  if (failure.param.empty()) failure.param = param;
  return to_api_error(failure);
}

std::vector<AnswerToken> tokens_with_offsets(const TextCodec& codec, const std::vector<TokenId>& ids, bool skip_special_tokens) {
  const auto stream = codec.stream(skip_special_tokens);
  std::vector<AnswerToken> tokens;
  tokens.reserve(ids.size());
  std::size_t offset = 0;
  for (const TokenId id : ids) {
    AnswerToken t;
    t.event.token = id;
    t.text_offset = offset;
    tokens.push_back(std::move(t));
    offset += count_characters(stream->push(id));
  }
  return tokens;
}

struct Builder {
  const Context& context;
  const GenerationOptions& options;
  const char* prompt_param;
  Job job = {};

  std::optional<ApiError> add_prompt(std::vector<TokenId> ids, std::uint64_t seed, const std::string& id) {
    const ModelInfo& model = context.generator.model();
    if (ids.empty()) return invalid_request(prompt_param, "the prompt has no tokens");
    const auto length = static_cast<std::int64_t>(ids.size());
    const std::int64_t room = model.context_length_max - length;
    const bool generates = options.max_tokens.value_or(1) > 0;
    if (room < (generates ? 1 : 0)) {
      return invalid_request(prompt_param,
                             fmt::format("this model's maximum context length is {} tokens, but the prompt has {}{}",
                                         model.context_length_max, length, generates ? " and at least one is to be generated" : ""),
                             "context_length_exceeded");
    }
    GenerationRequest r;
    r.id = id;
    r.prompt = ids;
    r.sampling = options.sampling;
    r.sampling.seed = seed;
    r.sampling.sample = 0;
    r.max_tokens = static_cast<int>(std::min(options.max_tokens.value_or(room), room));
    r.min_tokens = static_cast<int>(std::min<std::int64_t>(options.min_tokens, r.max_tokens));
    r.stop_token_ids = job.rules.stop_token_ids;
    r.logprobs = options.logprobs;
    r.prompt_logprobs = options.prompt_logprobs;
    r.cache_salt = options.cache_salt;
    if (context.config.request_timeout != Duration::max()) r.deadline = Deadline::in(context.config.request_timeout);
    if (auto valid = validate(r, model.vocab_size, model.context_length_max); !valid) {
      Failure failure = valid.failure();
      if (failure.param == "prompt") failure.param = prompt_param;
      return to_api_error(failure);
    }
    PromptPart part;
    part.ids = std::move(ids);
    job.prompts.push_back(std::move(part));
    job.requests.push_back(std::move(r));
    return std::nullopt;
  }

  std::optional<ApiError> set_rules() {
    const ModelInfo& model = context.generator.model();
    for (const TokenId id : options.stop_token_ids) {
      if (id >= model.vocab_size) {
        return invalid_request("stop_token_ids", fmt::format("stop_token_ids names token {}, the vocabulary has {}", id, model.vocab_size));
      }
    }
    job.n = options.n;
    job.rules.stops = options.stops;
    job.rules.include_stop = options.include_stop;
    job.rules.min_tokens = static_cast<int>(std::min<std::int64_t>(options.min_tokens, model.context_length_max));
    job.rules.stop_token_ids = options.stop_token_ids;
    job.named_stop_ids = options.stop_token_ids;
    if (!options.ignore_eos) {
      for (const TokenId id : model.stop_token_ids) job.rules.stop_token_ids.push_back(id);
    }
    job.skip_special_tokens = options.skip_special_tokens;
    job.stream = options.stream;
    job.include_usage = options.include_usage;
    job.continuous_usage = options.continuous_usage;
    return std::nullopt;
  }

  AnswerHead head(std::string id, std::string model) const {
    return {.id = std::move(id),
            .created = unix_seconds(),
            .model = std::move(model),
            .logprobs = options.logprobs,
            .prompt_logprobs = options.prompt_logprobs,
            .return_token_ids = options.return_token_ids,
            .usage_in_chunks = options.include_usage};
  }
};

}  // namespace

std::variant<std::string, ApiError> resolve_model(const Context& context, bool given, const std::string& name) {
  const auto& names = context.model_names;
  if (!given) return names.front();
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  auto error = not_found(fmt::format("the model \"{}\" does not exist here", name.substr(0, 256)), "model_not_found");
  error.param = "model";
  return error;
}

Prepared prepare_chat(const Context& context, std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed) return refused(parsed.failure(), {});
  const auto request = parse_chat_request(*parsed, {context.config.limits, context.config.defaults});
  if (!request) return to_api_error(request.failure());
  auto model = resolve_model(context, request->options.has_model, request->options.model);
  if (auto* const error = std::get_if<ApiError>(&model)) return std::move(*error);
  Builder builder{context, request->options, "messages"};
  if (auto error = builder.set_rules()) return std::move(*error);
  auto ids = context.codec.encode_chat(request->chat);
  if (!ids) return refused(ids.failure(), "messages");
  std::string id = context.new_id("chatcmpl");
  const std::uint64_t seed = request->options.seed ? *request->options.seed : context.random64();
  if (auto error = builder.add_prompt(std::move(*ids), seed, id)) return std::move(*error);
  builder.job.format = make_chat_format(builder.head(std::move(id), std::get<std::string>(std::move(model))), context.codec);
  return std::move(builder.job);
}

Prepared prepare_completion(const Context& context, std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed) return refused(parsed.failure(), {});
  const auto request = parse_completion_request(*parsed, {context.config.limits, context.config.defaults});
  if (!request) return to_api_error(request.failure());
  const auto& options = request->options;
  auto model = resolve_model(context, options.has_model, options.model);
  if (auto* const error = std::get_if<ApiError>(&model)) return std::move(*error);
  Builder builder{context, options, "prompt"};
  if (auto error = builder.set_rules()) return std::move(*error);
  std::string id = context.new_id("cmpl");
  const std::uint64_t seed = options.seed ? *options.seed : context.random64();
  for (const auto& prompt : request->prompts) {
    const auto* const text = std::get_if<std::string>(&prompt);
    auto ids = text != nullptr ? context.codec.encode(*text, request->add_special_tokens) : Result(std::get<std::vector<TokenId>>(prompt));
    if (!ids) return refused(ids.failure(), "prompt");
    if (auto error = builder.add_prompt(std::move(*ids), seed, id)) return std::move(*error);
    if (!request->echo) continue;
    PromptPart& part = builder.job.prompts.back();
    part.echo = text != nullptr ? *text : context.codec.decode(part.ids, options.skip_special_tokens);
    if (options.logprobs < 0) continue;
    part.echo_tokens = tokens_with_offsets(context.codec, part.ids, options.skip_special_tokens);
    int& wanted = builder.job.requests.back().prompt_logprobs;
    wanted = std::max(wanted, options.logprobs);
  }
  builder.job.format = make_completion_format(builder.head(std::move(id), std::get<std::string>(std::move(model))), context.codec);
  return std::move(builder.job);
}

}  // namespace qwell::server
