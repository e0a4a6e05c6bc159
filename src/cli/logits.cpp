#include <CLI/CLI.hpp>
#include <thread>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/progress.h"
#include "device/team.h"
#include "engine/forward_run.h"

namespace qwell {
namespace {

struct Flags {
  ModelFlags model;
  std::string token_ids, input, output;
  int prefill_ranks = 1;
  int decode_ranks = 0;
  int chunk = 0;
  int page_tokens = 16;
  bool hidden = false;
};

// input_ids [B, T] of a safetensors file, as B sequences.
std::vector<std::vector<TokenId>> read_input(const std::string& path) {
  const SafetensorsFile file(path);
  const TensorView& ids = file.require("input_ids");
  if (ids.shape.size() != 2 || (ids.dtype != DType::kI32 && ids.dtype != DType::kI64)) {
    fail("{}: tensor \"input_ids\": int32 or int64 [batch, tokens] is wanted", path);
  }
  std::vector<std::vector<TokenId>> sequences(static_cast<std::size_t>(ids.shape[0]));
  const auto width = static_cast<std::size_t>(ids.shape[1]);
  std::size_t at = 0;
  for (auto& sequence : sequences) {
    for (std::size_t i = 0; i < width; ++i, ++at) {
      std::int64_t id = 0;
      if (ids.dtype == DType::kI32) {
        std::int32_t narrow = 0;
        std::memcpy(&narrow, ids.data.data() + at * sizeof(narrow), sizeof(narrow));
        id = narrow;
      } else {
        std::memcpy(&id, ids.data.data() + at * sizeof(id), sizeof(id));
      }
      sequence.push_back(static_cast<TokenId>(std::clamp<std::int64_t>(id, -1, INT32_MAX)));
    }
  }
  return sequences;
}

void check_input(const std::vector<std::vector<TokenId>>& sequences, const ModelConfig& config) {
  if (sequences.empty()) fail("no sequence is given");
  for (const auto& sequence : sequences) {
    if (sequence.empty()) fail("a sequence without tokens");
    if (static_cast<int>(sequence.size()) > config.max_position_embeddings) {
      fail("{} tokens, the model's max_position_embeddings is {}", sequence.size(), config.max_position_embeddings);
    }
    for (const TokenId id : sequence) {
      if (id < 0 || id >= config.vocab_size) fail("token id {}: the vocabulary has {}", id, config.vocab_size);
    }
  }
}

// All sequences are equally long: one block [B, T, width].
std::vector<float> stacked(const std::vector<const std::vector<float>*>& parts) {
  std::vector<float> all;
  for (const auto* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

void write_output(const std::string& path, const std::vector<std::vector<TokenId>>& sequences, const ForwardRunOutput& output,
                  const ModelConfig& config) {
  const auto batch = static_cast<std::int64_t>(sequences.size());
  const auto length = static_cast<std::int64_t>(sequences.front().size());
  std::vector<std::vector<float>> blocks;
  std::vector<TensorToWrite> tensors;
  const auto add = [&](std::string name, std::int64_t width, const std::vector<const std::vector<float>*>& parts) {
    blocks.push_back(stacked(parts));
    tensors.push_back({std::move(name), DType::kF32, {batch, length, width}, std::as_bytes(std::span(blocks.back()))});
  };
  blocks.reserve(static_cast<std::size_t>(config.num_layers) + 2);  // the spans must stay where they are
  std::vector<const std::vector<float>*> parts;
  for (const auto& logits : output.logits) parts.push_back(&logits);
  add("logits", config.vocab_size, parts);
  for (std::size_t i = 0; !output.hidden.front().empty() && i < output.hidden.front().size(); ++i) {
    parts.clear();
    for (const auto& hidden : output.hidden) parts.push_back(&hidden[i]);
    add(fmt::format("hidden.{}", i), config.hidden_size, parts);
  }
  write_safetensors(path, tensors);
}

int run(const Flags& flags, bool from_ids) {
  const OpenModel model = open_model(flags.model.path);
  const auto sequences = from_ids ? std::vector<std::vector<TokenId>>{parse_token_ids(flags.token_ids)} : read_input(flags.input);
  check_input(sequences, model.config);
  const DType act = flags.model.act(model.config);
  const int threads = flags.model.threads > 0 ? flags.model.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

  EngineOptions layout;  // checks that the ranks can share the model
  layout.act = act;
  layout.disaggregated = flags.decode_ranks == 0;
  layout.prefill_ranks = flags.prefill_ranks;
  layout.decode_ranks = std::max(1, flags.decode_ranks);
  layout.page_tokens = flags.page_tokens;
  resolve(layout, model.config);

  ForwardRunOptions options;
  options.distinct_rows = flags.decode_ranks > 0;
  options.ranks = options.distinct_rows ? flags.decode_ranks : flags.prefill_ranks;
  options.chunk = flags.chunk;
  options.page_tokens = flags.page_tokens;
  options.hidden = flags.hidden;
  options.threads = std::max(1, threads / options.ranks);
  options.isa = chosen_isa();

  Team team(threads);
  const auto ops = make_cpu_ops(team, options.isa);
  const auto source = make_checkpoint_source(*model.checkpoint, model.config);
  Progress progress("loading");
  const ModelWeights weights = load_weights(model.config, *source, act, *ops, team, static_cast<int>(sequences.front().size()),
                                            [&](int done, int total) { progress.show(done, total); });
  auto output = run_forward(weights, sequences, options);
  if (!output) fail("{}", output.failure().message);
  write_output(flags.output, sequences, *output, model.config);
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("logits", "Write the logits of given tokens to a safetensors file");
  flags->model.add(*command, false);
  auto* what = command->add_option_group("input", "exactly one of");
  what->add_option("--token-ids", flags->token_ids, "one sequence, as 1,2,3");
  what->add_option("--input", flags->input, "safetensors file with input_ids int32 [batch, tokens]");
  what->require_option(1);
  command->add_option("--output", flags->output, "file to write: logits fp32 [batch, tokens, vocabulary]")->required();
  command->add_option("--prefill-ranks", flags->prefill_ranks, "run as a prefill group of so many ranks (TP = EP)")->capture_default_str();
  command->add_option("--decode-ranks", flags->decode_ranks, "run as a decode group of so many ranks (DP = EP) instead; 0: don't")
      ->capture_default_str();
  command->add_option("--chunk", flags->chunk, "rows of a step; 0: the whole sequence")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--block-size", flags->page_tokens, "tokens of a page")->capture_default_str();
  command->add_flag("--hidden", flags->hidden,
                    "also write hidden.0 (the embedding) to hidden.L (after the final norm), fp32 [batch, tokens, hidden]");
  command->callback([flags, command, &chosen] {
    const bool from_ids = command->count("--token-ids") > 0;
    chosen = [flags, from_ids] { return run(*flags, from_ids); };
  });
}

}  // namespace qwell
