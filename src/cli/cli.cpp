#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"

namespace qwell {

int run_cli(int argc, char** argv) {
  CLI::App app{"Qwell serves Qwen3 mixture-of-experts models with prefill and decode on separate groups of ranks."};
  app.name("qwell");
  app.set_version_flag("--version", "qwell " QWELL_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  std::string level = "info";
  app.add_option("--log-level", level, "trace, debug, info, warning, error, critical or off (before the subcommand)")
      ->envname("QWELL_LOG_LEVEL")
      ->capture_default_str();

  Command chosen;
  add_serve(app, chosen);
  add_demo(app, chosen);
  add_generate(app, chosen);
  add_chat(app, chosen);
  add_logits(app, chosen);
  add_tokenize(app, chosen);
  add_eval(app, chosen);
  add_inspect(app, chosen);
  add_bench(app, chosen);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    log::set_up(level);
    return chosen();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace qwell
