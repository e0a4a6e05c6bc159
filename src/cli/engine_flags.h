#pragma once
// Flags that several commands share: which model, which numbers, how many ranks, how to sample.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "control/local_engine.h"
#include "request/request.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace qwell {

// Which checkpoint, in which numbers, with how many threads.
struct ModelFlags {
  std::string path;
  std::string dtype = "auto";
  int threads = 0;

  // `positional`: MODEL as the first word, else --model.
  void add(CLI::App& app, bool positional);
  DType act(const ModelConfig& config) const;
};

struct TopologyFlags {
  EngineOptions options;
  double kv_gib = 0;
  bool no_disaggregation = false;
  bool no_prefix_caching = false;

  void add(CLI::App& app);
  EngineOptions resolve(const ModelFlags& model, const ModelConfig& config) const;
};

struct SamplingFlags {
  std::optional<float> temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  int max_tokens = 256;
  int min_tokens = 0;
  bool ignore_eos = false;

  void add(CLI::App& app);
  // The model's defaults (generation_config.json) with what the flags say.
  GenerationRequest request(const GenerationDefaults& defaults, const std::vector<TokenId>& stop_ids) const;
};

SamplingParams sampling_defaults(const GenerationDefaults& defaults);

// A checkpoint opened for use: configuration, files, tokenizer, the ids that end an answer.
struct OpenModel {
  std::string path;
  ModelConfig config;
  GenerationDefaults defaults;
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<Tokenizer> tokenizer;  // absent where the folder has none
  std::vector<TokenId> stop_ids;
  std::string model_id;

  const Tokenizer& text() const;  // Error where there is no tokenizer
};
OpenModel open_model(const std::string& path);

// The kernels to use: the best, or what QWELL_CPU_ISA names.
CpuIsa chosen_isa();

// Loads the weights and starts the engine, with a progress bar on a terminal; then closes the checkpoint's files.
std::unique_ptr<LocalEngine> start_engine(OpenModel& model, const EngineOptions& options, const std::string& served_name);

// "1,2,3" as ids; Error names the word at fault.
std::vector<TokenId> parse_token_ids(const std::string& text);

}  // namespace qwell
