#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <thread>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "server/chat_encoder.h"
#include "server/server.h"

namespace qwell {
namespace {

struct Flags {
  ModelFlags model;
  TopologyFlags topology;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> names;
  std::vector<std::string> api_keys;
  double shutdown_timeout = 30;
  bool plain_defaults = false;
};

// SIGINT and SIGTERM as events of the main thread. Made before any other thread, which inherit the mask.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  int wait() const {
    int signal = 0;
    while (sigwait(&set_, &signal) != 0) {
    }
    return signal;
  }
  // From now on the next one ends the process at once.
  void end_process_on_next() const {
    std::signal(SIGINT, [](int) { ::_exit(130); });
    std::signal(SIGTERM, [](int) { ::_exit(143); });
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_{};
};

void print_defaults(const SamplingParams& s) {
  log::info("sampling defaults: temperature {}, top_p {}, top_k {}, min_p {}, repetition_penalty {}", s.temperature, s.top_p, s.top_k,
            s.min_p, s.repetition_penalty);
}

int run(const Flags& flags) {
  const Signals signals;
  OpenModel model = open_model(flags.model.path);
  std::vector<std::string> names = flags.names;
  if (names.empty()) names.push_back(flags.model.path);
  const auto engine = start_engine(model, flags.topology.resolve(flags.model, model.config), names.front());
  const EngineLayout& layout = engine->layout();
  log::info("prefill ranks {}, decode ranks {}, sequences up to {} tokens; memory plan:\n{}", layout.options.prefill_ranks,
            layout.options.decode_ranks, engine->model().context_length_max, engine->plan().text());

  const server::TokenizerCodec codec(model.text(), server::make_chat_encoder(ChatTemplate::load(flags.model.path)));
  server::ServerConfig config;
  config.http.host = flags.host;
  config.http.port = static_cast<std::uint16_t>(flags.port);
  config.served_model_names = names;
  config.api_keys = flags.api_keys;
  if (!flags.plain_defaults) config.defaults = sampling_defaults(model.defaults);
  print_defaults(config.defaults);
  server::Server server(config, *engine, codec);
  server.start();
  log::info("serving {} on http://{}:{}", fmt::join(names, ", "), flags.host, server.port());

  signals.wait();
  signals.end_process_on_next();
  log::info("stopping: {} requests in work, at most {} s; a second signal ends at once",
            engine->status().running + engine->status().waiting, flags.shutdown_timeout);
  server.stop(Deadline::in(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.shutdown_timeout))));
  engine->stop();
  log::info("stopped");
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over HTTP with the OpenAI API");
  flags->model.add(*command, true);
  command->add_option("--host", flags->host, "address to listen on")->capture_default_str();
  command->add_option("--port", flags->port, "port to listen on; 0: any free one")->check(CLI::Range(0, 65535))->capture_default_str();
  command->add_option("--served-model-name", flags->names, "names under which requests ask for the model; default: MODEL as given");
  command->add_option("--api-key", flags->api_keys, "keys of which requests must give one")->envname("QWELL_API_KEY");
  command->add_option("--shutdown-timeout", flags->shutdown_timeout, "seconds that requests in work get to end after SIGTERM")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag_callback(
      "--plain-sampling-defaults", [flags] { flags->plain_defaults = true; }, "do not take sampling defaults from generation_config.json");
  flags->topology.add(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace qwell
