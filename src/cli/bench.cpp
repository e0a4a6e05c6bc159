#include <CLI/CLI.hpp>
#include <thread>

#include "base/json.h"
#include "bench/step_bench.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/progress.h"
#include "device/team.h"

namespace qwell {
namespace {

struct Flags {
  std::string config, model;
  std::string dtype = "bfloat16";
  std::uint64_t seed = 1;
  StepBenchOptions options;
  bool json = false;
};

void print_json(const std::vector<StepFigure>& figures, const std::string& numerics) {
  JsonWriter w;
  w.begin_object().field("numerics", numerics).key("steps").begin_array();
  for (const StepFigure& f : figures) {
    w.begin_object().field("what", f.what).field("median_ms", f.median_ms).field("least_ms", f.least_ms).field("most_ms", f.most_ms);
    w.field("tokens_per_second", f.tokens_per_second).field("weight_gb_per_second", f.weight_gb_per_second).end_object();
  }
  w.end_array().end_object();
  fmt::print("{}\n", w.text());
}

int run(const Flags& flags) {
  StepBenchOptions options = flags.options;
  options.isa = chosen_isa();
  const ModelConfig config = load_config(flags.config.empty() ? flags.model : flags.config);
  const int threads = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Team team(threads);
  const auto ops = make_cpu_ops(team, options.isa);
  const int positions = std::max(options.prefill_tokens, options.context + options.decode_steps * (options.repeats + 1));
  const DType act = flags.dtype == "float32" ? DType::kF32 : DType::kBf16;

  std::optional<OpenModel> model;
  std::unique_ptr<WeightSource> source;
  if (flags.config.empty()) {
    model = open_model(flags.model);
    source = make_checkpoint_source(*model->checkpoint, model->config);
  } else {
    source = make_random_source(config, flags.seed);
  }
  ModelWeights weights;
  {
    Progress progress("loading");
    weights = load_weights(config, *source, act, *ops, team, positions, [&](int done, int total) { progress.show(done, total); });
  }
  const std::vector<StepFigure> figures = bench_steps(weights, options);
  if (flags.json) {
    print_json(figures, weights.numerics_id);
    return 0;
  }
  fmt::print("{} threads, {}\n{:<18} {:>10} {:>10} {:>10} {:>10} {:>14}\n", threads, weights.numerics_id, "step", "median ms", "least",
             "most", "tokens/s", "weights GB/s");
  for (const StepFigure& f : figures) {
    fmt::print("{:<18} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.1f} {:>14}\n", f.what, f.median_ms, f.least_ms, f.most_ms, f.tokens_per_second,
               f.weight_gb_per_second > 0 ? fmt::format("{:.1f}", f.weight_gb_per_second) : "");
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* bench = app.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  CLI::App* command = bench->add_subcommand("steps", "Prefill and decode steps of one rank");
  auto* what = command->add_option_group("model", "exactly one of");
  what->add_option("--model", flags->model, "checkpoint folder");
  what->add_option("--random-weights", flags->config, "folder with a config.json; the weights are random");
  what->require_option(1);
  StepBenchOptions& o = flags->options;
  command->add_option("--dtype", flags->dtype, "bfloat16 or float32")->check(CLI::IsMember({"bfloat16", "float32"}))->capture_default_str();
  command->add_option("--seed", flags->seed, "of the random weights")->capture_default_str();
  command->add_option("--prefill", o.prefill_tokens, "tokens of the prompt; 0: no prefill")->capture_default_str();
  command->add_option("--chunk", o.chunk, "rows of a prefill step")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--batch", o.batches, "sequences that decode together, one or several sizes")->delimiter(',')->capture_default_str();
  command->add_option("--context", o.context, "keys before the first decode step")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--steps", o.decode_steps, "decode steps of a round")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--repeats", o.repeats, "measured rounds; one more warms up")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--threads", o.threads, "CPU threads; 0: all cores")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace qwell
