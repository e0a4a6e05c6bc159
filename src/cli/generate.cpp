#include <CLI/CLI.hpp>
#include <cstdio>
#include <mutex>

#include "base/json.h"
#include "cli/chat_text.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "text/detokenizer.h"

namespace qwell {
namespace {

struct Flags {
  ModelFlags model;
  TopologyFlags topology;
  SamplingFlags sampling;
  std::string prompt, chat, token_ids;
  bool json = false;
};

void write_timing(JsonWriter& w, const Completion& done, double total_seconds) {
  w.key("timing").begin_object();
  w.field("queued_s", done.timing.queued).field("prefill_s", done.timing.prefill).field("transfer_s", done.timing.transfer);
  w.field("decode_s", done.timing.decode).field("total_s", total_seconds);
  w.field("kv_bytes_moved", done.timing.kv_bytes_moved).field("kv_bytes_shared", done.timing.kv_bytes_shared);
  w.field("cached_tokens", done.cached_tokens).field("preemptions", done.timing.preemptions).end_object();
}

int print_json(const std::vector<TokenId>& prompt, const Completion& done, const std::string& text, double total_seconds) {
  JsonWriter w;
  w.begin_object().key("prompt_token_ids").begin_array();
  for (const TokenId id : prompt) w.value(id);
  w.end_array().key("token_ids").begin_array();
  for (const TokenId id : done.token_ids()) w.value(id);
  w.end_array().field("text", text).field("finish_reason", to_string(done.finish));
  write_timing(w, done, total_seconds);
  w.end_object();
  fmt::print("{}\n", w.text());
  return 0;
}

// The answer's ids without the stop id that ended it.
std::vector<TokenId> readable(const Completion& done) {
  std::vector<TokenId> ids = done.token_ids();
  if (done.finish == FinishReason::kStop) ids.pop_back();
  return ids;
}

int run(const Flags& flags, bool from_ids, bool from_chat) {
  OpenModel model = open_model(flags.model.path);
  std::vector<TokenId> prompt;
  if (from_ids) {
    prompt = parse_token_ids(flags.token_ids);
  } else if (from_chat) {
    prompt = ChatText(model).user_turn(flags.chat);
  } else {
    prompt = model.text().encode(flags.prompt);
  }
  GenerationRequest request = flags.sampling.request(model.defaults, model.stop_ids);
  request.prompt = prompt;
  const auto engine = start_engine(model, flags.topology.resolve(flags.model, model.config), "model");
  // As long as the context allows, if that is shorter than what was asked for.
  request.max_tokens = std::min(request.max_tokens, std::max(1, engine->model().context_length_max - static_cast<int>(prompt.size())));

  const bool stream = !flags.json && model.tokenizer.has_value();
  std::optional<Detokenizer> detokenizer;
  if (stream) detokenizer.emplace(*model.tokenizer);
  const auto& stops = request.stop_token_ids;
  const TimePoint start = Clock::now();
  auto done = complete(*engine, request, [&](const TokenEvent& token) {
    if (!stream || std::find(stops.begin(), stops.end(), token.token) != stops.end()) return;
    fmt::print("{}", detokenizer->push(token.token));
    std::fflush(stdout);
  });
  const double total = seconds(Clock::now() - start);
  if (!done) fail("{}", done.failure().message);
  if (flags.json) return print_json(prompt, *done, model.tokenizer ? model.tokenizer->decode(readable(*done), true) : "", total);
  if (stream) {
    fmt::print("{}\n", detokenizer->flush());
  } else {
    fmt::print("{}\n", fmt::join(done->token_ids(), " "));
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("generate", "Answer one prompt and print the answer");
  flags->model.add(*command, false);
  auto* what = command->add_option_group("prompt", "exactly one of");
  what->add_option("--prompt", flags->prompt, "text, taken as it is");
  what->add_option("--chat", flags->chat, "a user's message, put into the model's chat template");
  what->add_option("--token-ids", flags->token_ids, "token ids, as 1,2,3");
  what->require_option(1);
  flags->sampling.add(*command);
  flags->topology.add(*command);
  command->add_flag("--json", flags->json, "print one JSON object: prompt_token_ids, token_ids, text, finish_reason, timing");
  command->callback([flags, command, &chosen] {
    const bool from_ids = command->count("--token-ids") > 0;
    const bool from_chat = command->count("--chat") > 0;
    chosen = [flags, from_ids, from_chat] { return run(*flags, from_ids, from_chat); };
  });
}

}  // namespace qwell
