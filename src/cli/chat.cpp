#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "cli/api_client.h"
#include "cli/chat_text.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "text/detokenizer.h"

namespace qwell {
namespace {

struct Flags {
  std::string url, api_key, system;
  ModelFlags model;
  TopologyFlags topology;
  SamplingFlags sampling;
};

using Answerer = std::function<Result<std::string>(const std::vector<ChatMessage>&)>;

void print_piece(const std::string& piece) {
  fmt::print("{}", piece);
  std::fflush(stdout);
}

// Asks, answers, remembers, until the end of input or /exit.
int converse(const std::string& system, const Answerer& answer) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  if (terminal) fmt::print("Type a message; /new begins again, /exit or Ctrl-D ends.\n");
  std::vector<ChatMessage> messages;
  const auto restart = [&] {
    messages.clear();
    if (!system.empty()) messages.push_back({"system", system});
  };
  restart();
  std::string line;
  for (;;) {
    if (terminal) print_piece("> ");
    if (!std::getline(std::cin, line)) break;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/new") restart();
    if (line.empty() || line == "/new") continue;
    messages.push_back({"user", line});
    auto reply = answer(messages);
    fmt::print("\n");
    if (!reply) {
      fmt::print(stderr, "error: {}\n", reply.failure().message);
      if (!terminal) return 1;
      messages.pop_back();
      continue;
    }
    messages.push_back({"assistant", *reply});
  }
  if (terminal) fmt::print("\n");
  return 0;
}

std::string sampling_json(const SamplingFlags& flags) {
  std::string out;
  const auto add = [&](const char* name, const auto& value) {
    if (value) out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", name, *value);
  };
  add("temperature", flags.temperature);
  add("top_p", flags.top_p);
  add("top_k", flags.top_k);
  add("min_p", flags.min_p);
  add("presence_penalty", flags.presence_penalty);
  add("frequency_penalty", flags.frequency_penalty);
  add("repetition_penalty", flags.repetition_penalty);
  add("seed", flags.seed);
  return out;
}

int chat_with_server(const Flags& flags) {
  const ApiClient client(flags.url, flags.api_key);
  const std::string sampling = sampling_json(flags.sampling);
  return converse(flags.system, [&](const std::vector<ChatMessage>& messages) -> Result<std::string> {
    auto reply = client.chat(messages, flags.sampling.max_tokens, sampling, print_piece);
    if (!reply) return reply.failure();
    return reply->text;
  });
}

int chat_here(const Flags& flags) {
  OpenModel model = open_model(flags.model.path);
  const ChatText text(model);
  const auto engine = start_engine(model, flags.topology.resolve(flags.model, model.config), "model");
  return converse(flags.system, [&](const std::vector<ChatMessage>& messages) -> Result<std::string> {
    json::array list;
    for (const ChatMessage& m : messages) list.push_back(json::object{{"role", m.role}, {"content", m.content}});
    GenerationRequest request = flags.sampling.request(model.defaults, model.stop_ids);
    request.prompt = text.render(list, true);
    const auto& stops = model.stop_ids;
    Detokenizer detokenizer(model.text());
    std::string reply;
    auto done = complete(*engine, request, [&](const TokenEvent& token) {
      if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) return;
      const std::string piece = detokenizer.push(token.token);
      reply += piece;
      print_piece(piece);
    });
    if (!done) return done.failure();
    const std::string rest = detokenizer.flush();
    print_piece(rest);
    return reply + rest;
  });
}

}  // namespace

void add_chat(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("chat", "Talk with a model: in this process, or with a server");
  auto* where = command->add_option_group("where", "exactly one of");
  where->add_option("model,--model", flags->model.path, "checkpoint folder");
  where->add_option("--url", flags->url, "http://HOST:PORT of a running server");
  where->require_option(1);
  command->add_option("--api-key", flags->api_key, "key for --url")->envname("QWELL_API_KEY");
  command->add_option("--system", flags->system, "system message");
  command->add_option("--dtype", flags->model.dtype, "auto, bfloat16 or float32")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}))
      ->capture_default_str();
  command->add_option("--threads", flags->model.threads, "CPU threads; 0: all cores")->check(CLI::NonNegativeNumber)->capture_default_str();
  flags->sampling.max_tokens = 512;
  flags->sampling.add(*command);
  flags->topology.add(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return flags->url.empty() ? chat_here(*flags) : chat_with_server(*flags); }; });
}

}  // namespace qwell
