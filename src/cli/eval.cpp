#include <CLI/CLI.hpp>
#include <mutex>

#include "base/file.h"
#include "base/json.h"
#include "bench/evaluate.h"
#include "cli/chat_text.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/progress.h"

namespace qwell {
namespace {

struct Flags {
  ModelFlags model;
  TopologyFlags topology;
  std::string set;
  EvalOptions options;
  bool json = false;
};

// The figures that a reference left beside the set, if there are any.
struct Reference {
  std::map<std::string, double> accuracy;
  std::optional<double> text, chats;
};

Reference read_reference(const std::filesystem::path& path) {
  Reference reference;
  if (!std::filesystem::exists(path)) return reference;
  const json::value value = parse_json_file(read_file(path), path.string());
  const auto number = [](const json::value& v) { return v.is_double() ? v.get_double() : v.to_number<double>(); };
  try {
    for (const auto& task : value.at("tasks").as_object())
      reference.accuracy[std::string(task.key())] = number(task.value().at("accuracy"));
    reference.text = number(value.at("perplexity").at("text").at("ppl"));
    reference.chats = number(value.at("perplexity").at("chats").at("ppl"));
  } catch (const std::exception& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return reference;
}

void print_table(const EvalResult& result, const Reference& reference) {
  const bool compared = !reference.accuracy.empty();
  fmt::print("{:<22} {:>6} {:>10}{}\n", "task", "n", "accuracy", compared ? fmt::format(" {:>10} {:>8}", "reference", "points") : "");
  for (const auto& [task, figure] : result.tasks) {
    fmt::print("{:<22} {:>6} {:>9.2f}%", task, figure.n, 100 * figure.accuracy());
    if (const auto at = reference.accuracy.find(task); at != reference.accuracy.end()) {
      fmt::print(" {:>9.2f}% {:>+8.2f}", 100 * at->second, 100 * (figure.accuracy() - at->second));
    }
    fmt::print("\n");
  }
  const auto perplexity = [](const char* what, const PerplexityFigure& figure, const std::optional<double>& wanted) {
    if (figure.tokens == 0) return;
    fmt::print("{:<22} {:>6} {:>10.4f}", what, figure.tokens, figure.perplexity());
    if (wanted) fmt::print(" {:>10.4f} {:>+7.3f}%", *wanted, 100 * (figure.perplexity() / *wanted - 1));
    fmt::print("\n");
  };
  perplexity("perplexity, text", result.text, reference.text);
  perplexity("perplexity, chats", result.chats, reference.chats);
}

void print_json(const EvalResult& result) {
  JsonWriter w;
  w.begin_object().key("tasks").begin_object();
  for (const auto& [task, figure] : result.tasks) {
    w.key(task).begin_object().field("n", figure.n).field("accuracy", figure.accuracy()).end_object();
  }
  w.end_object().key("perplexity").begin_object();
  for (const auto& [name, figure] : {std::pair{"text", result.text}, std::pair{"chats", result.chats}}) {
    w.key(name).begin_object().field("tokens", figure.tokens).field("nll", figure.nll).field("ppl", figure.perplexity()).end_object();
  }
  w.end_object().end_object();
  fmt::print("{}\n", w.text());
}

int run(const Flags& flags) {
  OpenModel model = open_model(flags.model.path);
  const std::filesystem::path folder =
      flags.set.empty() ? std::filesystem::path(flags.model.path) / "eval" : std::filesystem::path(flags.set);
  const EvalSet set = read_eval_set(folder);
  const ChatText chat(model);
  const auto engine = start_engine(model, flags.topology.resolve(flags.model, model.config), "model");
  Progress progress("evaluating");
  const EvalResult result = evaluate(
      *engine, model.text(), [&](const json::array& messages, bool generate) { return chat.render(messages, generate); }, model.stop_ids,
      set, flags.options, [&](int done, int total) { progress.show(done, total); });
  if (flags.json) {
    print_json(result);
  } else {
    print_table(result, read_reference(folder / "reference.json"));
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  flags->topology.options.max_num_seqs = 64;
  CLI::App* command =
      app.add_subcommand("eval", "Measure task accuracy and perplexity on an evaluation set, beside the reference's figures");
  flags->model.add(*command, true);
  flags->topology.add(*command);
  command->add_option("--set", flags->set, "folder with tasks.jsonl, text.jsonl, chats.jsonl and reference.json; default: MODEL/eval");
  command->add_option("--limit", flags->options.tasks_max, "records of each file, from the front; 0: all")->capture_default_str();
  command->add_option("--in-flight", flags->options.in_flight, "requests at once")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace qwell
