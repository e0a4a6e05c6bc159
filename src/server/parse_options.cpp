#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "server/internal/parse.h"

namespace qwell::server {
namespace {

constexpr auto kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr auto kIntMax = std::numeric_limits<int>::max();

void parse_logit_bias(FieldReader& reader, const ApiLimits& limits, SamplingParams& sampling) {
  const auto* const bias = reader.object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > static_cast<std::size_t>(limits.logit_bias_max)) {
    return reader.fail("logit_bias", fmt::format("logit_bias has {} entries, at most {} are allowed", bias->size(), limits.logit_bias_max));
  }
  for (const auto& item : *bias) {
    const std::string_view key = item.key();
    TokenId token = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token < 0) {
      return reader.fail("logit_bias", fmt::format("logit_bias must map token ids to numbers; \"{}\" is not a token id", key));
    }
    if (!item.value().is_number()) {
      return reader.fail("logit_bias", fmt::format("logit_bias of {} must be a number, got {}", token, kind_name(item.value())));
    }
    const auto v = item.value().to_number<double>();
    if (!(v >= -100 && v <= 100)) {
      return reader.fail("logit_bias", fmt::format("logit_bias must be in [-100, 100], got {} for token {}", v, token));
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(v));
  }
}

void parse_sampling(FieldReader& reader, const ApiOptions& options, GenerationOptions& out) {
  constexpr double kHuge = std::numeric_limits<float>::max();
  SamplingParams& s = out.sampling;
  s = options.defaults;
  s.temperature = reader.number("temperature", 0, 2, s.temperature);
  s.top_p = reader.number("top_p", 0, 1, s.top_p, true);
  s.min_p = reader.number("min_p", 0, 1, s.min_p);
  if (const auto k = reader.integer("top_k", -1, kInt64Max)) s.top_k = *k < 1 ? 0 : static_cast<int>(std::min<std::int64_t>(*k, kIntMax));
  s.presence_penalty = reader.number("presence_penalty", -2, 2, s.presence_penalty);
  s.frequency_penalty = reader.number("frequency_penalty", -2, 2, s.frequency_penalty);
  s.repetition_penalty = reader.number("repetition_penalty", 0, kHuge, s.repetition_penalty, true);
  parse_logit_bias(reader, options.limits, s);
  if (const auto* const seed = reader.find("seed")) {
    if (seed->is_uint64()) {
      out.seed = seed->get_uint64();
    } else if (const auto v = as_integer(*seed)) {
      out.seed = static_cast<std::uint64_t>(*v);
    } else {
      reader.fail("seed", fmt::format("seed must be an integer, got {}", kind_name(*seed)));
    }
  }
}

void parse_stops(FieldReader& reader, const ApiLimits& limits, GenerationOptions& out) {
  const auto add = [&](const json::value& value) {
    if (!value.is_string()) return reader.fail("stop", fmt::format("stop must be a string or a list of strings, got {}", kind_name(value)));
    const std::string_view text = value.get_string();
    if (text.empty()) return reader.fail("stop", "a stop string must not be empty");
    if (text.size() > static_cast<std::size_t>(limits.stop_bytes_max)) {
      return reader.fail("stop", fmt::format("a stop string may have at most {} bytes, got {}", limits.stop_bytes_max, text.size()));
    }
    out.stops.emplace_back(text);
  };
  if (const auto* const stop = reader.find("stop")) {
    if (!stop->is_array()) {
      add(*stop);
    } else if (stop->get_array().size() > static_cast<std::size_t>(limits.stops_max)) {
      reader.fail("stop", fmt::format("at most {} stop strings are allowed, got {}", limits.stops_max, stop->get_array().size()));
    } else {
      for (const auto& item : stop->get_array()) add(item);
    }
  }
  out.include_stop = reader.boolean("include_stop_str_in_output", false);
  if (const auto* const ids = reader.array("stop_token_ids")) {
    if (ids->size() > static_cast<std::size_t>(limits.stop_token_ids_max)) {
      return reader.fail("stop_token_ids", fmt::format("at most {} stop token ids are allowed", limits.stop_token_ids_max));
    }
    out.stop_token_ids = parse_token_ids(reader, "stop_token_ids", *ids);
  }
  out.ignore_eos = reader.boolean("ignore_eos", false);
}

void parse_lengths(FieldReader& reader, GenerationOptions& out) {
  // Zero passes here: completions allow it with echo. The newer field wins, but the older must be sound as well.
  const auto older = reader.integer("max_tokens", 0, kInt64Max);
  const auto newer = reader.integer("max_completion_tokens", 0, kInt64Max);
  out.max_tokens = newer ? newer : older;
  out.min_tokens = reader.integer("min_tokens", 0, kInt64Max).value_or(0);
  if (out.max_tokens && out.min_tokens > *out.max_tokens) {
    reader.fail("min_tokens", fmt::format("min_tokens must not be above max_tokens ({}), got {}", *out.max_tokens, out.min_tokens));
  }
}

void parse_stream(FieldReader& reader, GenerationOptions& out) {
  out.stream = reader.boolean("stream", false);
  const auto* const stream_options = reader.object("stream_options");
  if (stream_options == nullptr) return;
  if (!out.stream) return reader.fail("stream_options", "stream_options is only allowed with stream: true");
  FieldReader inner(*stream_options);
  out.include_usage = inner.boolean("include_usage", false);
  out.continuous_usage = inner.boolean("continuous_usage_stats", false) && out.include_usage;
  if (!inner.ok()) reader.fail("stream_options", "stream_options: " + inner.failure().message);
}

void refuse_unsupported(FieldReader& reader) {
  static constexpr std::array kFields = {"guided_json",   "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
                                         "chat_template", "functions",    "audio",         "documents",      "prompt_embeds"};
  for (const char* const name : kFields) {
    if (reader.find(name) != nullptr) reader.fail(name, fmt::format("{} is not supported by this server", name));
  }
  if (const auto* const format = reader.object("response_format")) {
    const auto* const type = format->if_contains("type");
    if (type == nullptr || !type->is_string()) {
      reader.fail("response_format", "response_format.type must be a string");
    } else if (type->get_string() != "text") {
      reader.fail("response_format", fmt::format("response_format of type \"{}\" is not supported by this server, only \"text\"",
                                                 std::string_view(type->get_string())));
    }
  }
  if (reader.boolean("use_beam_search", false)) reader.fail("use_beam_search", "beam search is not supported by this server");
}

}  // namespace

Result<const json::object*> object_of(const json::value& body) {
  if (body.is_object()) return &body.get_object();
  return failure(FailureCode::kInvalidArgument, "the request's body must be a JSON object, got {}", kind_name(body));
}

std::vector<TokenId> parse_token_ids(FieldReader& reader, std::string_view param, const json::array& items) {
  std::vector<TokenId> ids;
  ids.reserve(items.size());
  for (const auto& item : items) {
    const bool is_id = item.is_int64() && item.get_int64() >= 0 && item.get_int64() <= std::numeric_limits<TokenId>::max();
    if (!is_id) {
      reader.fail(param, item.is_number() && !item.is_double()
                             ? fmt::format("{}[{}] is out of the range of token ids", param, ids.size())
                             : fmt::format("{}[{}] must be a token id, got {}", param, ids.size(), kind_name(item)));
      return {};
    }
    ids.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return ids;
}

GenerationOptions parse_generation_options(FieldReader& reader, const ApiOptions& options) {
  GenerationOptions out;
  out.has_model = reader.find("model") != nullptr;
  out.model = reader.string("model");
  out.n = static_cast<int>(reader.integer("n", 1, options.limits.n_max).value_or(1));
  parse_sampling(reader, options, out);
  parse_lengths(reader, out);
  parse_stops(reader, options.limits, out);
  parse_stream(reader, out);
  out.skip_special_tokens = reader.boolean("skip_special_tokens", true);
  out.return_token_ids = reader.boolean("return_token_ids", false);
  out.cache_salt = reader.string("cache_salt");
  if (const auto wanted = reader.integer("prompt_logprobs", 0, options.limits.logprobs_max)) {
    out.prompt_logprobs = static_cast<int>(*wanted);
    if (out.stream) reader.fail("prompt_logprobs", "prompt_logprobs is not available with stream: true");
  }
  refuse_unsupported(reader);
  return out;
}

}  // namespace qwell::server
