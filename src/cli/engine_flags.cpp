#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>

#include "base/log.h"
#include "cli/progress.h"

namespace qwell {

void ModelFlags::add(CLI::App& app, bool positional) {
  app.add_option(positional ? "model,--model" : "--model", path, "checkpoint folder: config.json, safetensors, tokenizer.json")->required();
  app.add_option("--dtype", dtype, "numbers of weights, activations, keys and values: auto (bfloat16), bfloat16 or float32")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32"}))
      ->capture_default_str();
  app.add_option("--threads", threads, "CPU threads of all ranks together; 0: all cores")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

DType ModelFlags::act(const ModelConfig&) const { return dtype == "float32" ? DType::kF32 : DType::kBf16; }

void TopologyFlags::add(CLI::App& app) {
  EngineOptions& o = options;
  app.add_option("--prefill-ranks", o.prefill_ranks, "ranks of the prefill group (TP = EP); a power of two")->capture_default_str();
  app.add_option("--decode-ranks", o.decode_ranks, "ranks of the decode group (DP = EP); a power of two")->capture_default_str();
  app.add_flag("--no-disaggregation", no_disaggregation, "one group of --decode-ranks ranks runs prompts and answers");
  app.add_option("--max-model-len", o.max_model_len, "longest sequence, prompt and answer; 0: the model's, at most 32768")
      ->capture_default_str();
  app.add_option("--max-num-seqs", o.max_num_seqs, "sequences in work on each decode rank")->capture_default_str();
  app.add_option("--max-num-batched-tokens", o.max_num_batched_tokens, "rows of a step: the chunk of prompts")->capture_default_str();
  app.add_option("--block-size", o.page_tokens, "tokens of a page of the decode ranks: 16, 32, 64 or 128")->capture_default_str();
  app.add_option("--prefill-block-size", o.prefill_page_tokens, "tokens of a page of the prefill group; 0: as --block-size")
      ->capture_default_str();
  app.add_option("--kv-cache-memory", kv_gib, "GiB for all pages together; 0: by the sizes above, at most a quarter of the free memory")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--no-enable-prefix-caching", no_prefix_caching, "keep no pages for prompts that begin alike");
  app.add_option("--max-waiting-queue-length", o.max_waiting, "requests that may wait; more are refused")->capture_default_str();
}

EngineOptions TopologyFlags::resolve(const ModelFlags& model, const ModelConfig& config) const {
  EngineOptions o = options;
  o.disaggregated = !no_disaggregation;
  o.prefix_caching = !no_prefix_caching;
  o.kv_bytes = static_cast<std::size_t>(kv_gib * (1ULL << 30));
  o.act = model.act(config);
  o.threads = model.threads;
  o.isa = chosen_isa();
  return o;
}

void SamplingFlags::add(CLI::App& app) {
  app.add_option("--max-tokens", max_tokens, "longest answer")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--min-tokens", min_tokens, "shortest answer")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--temperature", temperature, "0: greedy; default: the model's generation_config.json");
  app.add_option("--top-p", top_p, "smallest set of tokens whose probabilities reach this");
  app.add_option("--top-k", top_k, "only the k most probable tokens; 0: off");
  app.add_option("--min-p", min_p, "only tokens at least this probable, relative to the best");
  app.add_option("--presence-penalty", presence_penalty, "-2 to 2");
  app.add_option("--frequency-penalty", frequency_penalty, "-2 to 2");
  app.add_option("--repetition-penalty", repetition_penalty, "above 0; 1: off");
  app.add_option("--seed", seed, "same seed, same answer; default: 0");
  app.add_flag("--ignore-eos", ignore_eos, "go on where the model would stop");
}

GenerationRequest SamplingFlags::request(const GenerationDefaults& defaults, const std::vector<TokenId>& stop_ids) const {
  GenerationRequest request;
  request.max_tokens = max_tokens;
  request.min_tokens = min_tokens;
  if (!ignore_eos) request.stop_token_ids = stop_ids;
  SamplingParams& s = request.sampling;
  s = sampling_defaults(defaults);
  s.temperature = temperature.value_or(s.temperature);
  s.top_p = top_p.value_or(s.top_p);
  s.top_k = top_k.value_or(s.top_k);
  s.min_p = min_p.value_or(s.min_p);
  s.presence_penalty = presence_penalty.value_or(s.presence_penalty);
  s.frequency_penalty = frequency_penalty.value_or(s.frequency_penalty);
  s.repetition_penalty = repetition_penalty.value_or(s.repetition_penalty);
  s.seed = seed.value_or(0);
  return request;
}

const Tokenizer& OpenModel::text() const {
  if (!tokenizer) fail("{}: no tokenizer.json; give the prompt as --token-ids", path);
  return *tokenizer;
}

CpuIsa chosen_isa() {
  const CpuIsa isa = select_cpu_isa(std::getenv("QWELL_CPU_ISA"));
  log::info("CPU kernels: {}", to_string(isa));
  return isa;
}

std::unique_ptr<LocalEngine> start_engine(OpenModel& model, const EngineOptions& options, const std::string& served_name) {
  LocalEngine::Config config;
  config.options = options;
  config.served_name = served_name;
  config.path = model.path;
  config.model_id = model.model_id;
  config.stop_token_ids = model.stop_ids;
  config.vocab_size = model.tokenizer ? model.tokenizer->size() : 0;
  const auto source = make_checkpoint_source(*model.checkpoint, model.config);
  Progress progress("loading");
  auto engine = std::make_unique<LocalEngine>(config, model.config, *source, [&](int done, int total) { progress.show(done, total); });
  model.checkpoint.reset();
  return engine;
}

std::vector<TokenId> parse_token_ids(const std::string& text) {
  std::vector<TokenId> ids;
  std::size_t first = 0;
  while (first <= text.size()) {
    std::size_t end = text.find(',', first);
    if (end == std::string::npos) end = text.size();
    std::string_view word = std::string_view(text).substr(first, end - first);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    TokenId id = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || last != word.data() + word.size() || id < 0) {
      fail("token ids \"{}\": \"{}\" is no token id; numbers from 0, separated by commas, are wanted", text, word);
    }
    ids.push_back(id);
    first = end + 1;
  }
  return ids;
}

}  // namespace qwell
