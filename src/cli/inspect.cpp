#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "device/team.h"

namespace qwell {
namespace {

struct Flags {
  ModelFlags model;
  TopologyFlags topology;
};

void print_config(const OpenModel& model) {
  const ModelConfig& c = model.config;
  fmt::print("model      {}\n", model.path);
  fmt::print("id         {}\n", model.model_id);
  fmt::print("layers     {}, hidden {}, vocabulary {}\n", c.num_layers, c.hidden_size, c.vocab_size);
  fmt::print("attention  {} query heads, {} KV heads of {}\n", c.num_heads, c.num_kv_heads, c.head_dim);
  if (c.num_experts > 0) {
    fmt::print("experts    {} of width {}, {} per token\n", c.num_experts, c.moe_intermediate_size, c.experts_per_token);
  } else {
    fmt::print("MLP        dense, width {}\n", c.intermediate_size);
  }
  fmt::print("positions  {}, rope theta {}\n", c.max_position_embeddings, c.rope.theta);
  fmt::print("stop ids   {}\n", fmt::join(model.stop_ids, " "));
  fmt::print("tokenizer  {}\n", model.tokenizer ? fmt::format("{} tokens", model.tokenizer->size()) : "none");
}

int run(const Flags& flags) {
  const OpenModel model = open_model(flags.model.path);
  print_config(model);
  const EngineOptions options = flags.topology.resolve(flags.model, model.config);
  const EngineLayout layout = resolve(options, model.config);
  Team team(1);
  const auto ops = make_cpu_ops(team, options.isa);
  if (options.disaggregated) {
    fmt::print("prefill    {} ranks (TP = EP), {} threads each", options.prefill_ranks, layout.prefill_threads);
    if (layout.shared_pool) {
      fmt::print(", pages shared with the decode ranks\n");
    } else {
      fmt::print(", {} pages\n", layout.prefill_pages);
      for (int rank = 0; rank < options.prefill_ranks; ++rank) {
        fmt::print("             rank {}: {}\n", rank, prefill_layout(layout, model.config, rank).text());
      }
    }
  }
  fmt::print("decode     {} ranks (DP = EP), {} threads each, {} pages{}: {}\n", options.decode_ranks, layout.decode_threads,
             layout.decode_pages, layout.shared_pool ? "" : " each", layout.decode_layout.text());
  fmt::print("sequences  up to {} tokens, {} in work per decode rank, chunks of {} rows\n", layout.max_model_len, options.max_num_seqs,
             options.max_num_batched_tokens);
  fmt::print("memory plan\n{}", memory_plan(layout, model.config, *ops).text());
  const std::vector<std::string> unused = unused_tensors(*model.checkpoint, model.config);
  if (!unused.empty()) fmt::print("not used   {} tensors: {}\n", unused.size(), fmt::join(unused, ", "));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "Tell what a checkpoint is, and the memory that a topology takes");
  flags->model.add(*command, true);
  flags->topology.add(*command);
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace qwell
