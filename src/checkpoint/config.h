#pragma once
// A model's configuration, from config.json in any of its spellings to one form. Every error names file, field, value seen and value
// wanted.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/dtype.h"

namespace qwell {

enum class ModelFamily {
  kQwen3,  // dense
  kQwen3Moe,
  kQwen3Next,  // gated DeltaNet beside full attention
  kQwen35,     // the same, dense MLP
  kQwen35Moe,
};
std::string_view to_string(ModelFamily family);

enum class LayerKind { kFullAttention, kLinearAttention };

struct RopeConfig {
  enum class Kind { kDefault, kYarn };

  double theta = 0;
  int rotary_dim = 0;  // of each head, the first elements
  Kind kind = Kind::kDefault;
  // YaRN.
  double factor = 1;
  int original_max_position = 0;
  double beta_fast = 32, beta_slow = 1;
  double attention_factor = 0;  // 0: by the formula
  double mscale = 0, mscale_all_dim = 0;
  bool truncate = true;
};

// How the linear layers' weights are stored, by what the configuration says. What a tensor really is shows in the file (layout.h); the two
// may differ, and the file counts.
enum class QuantMethod { kNone, kFp8Block, kMxfp8, kMxfp4, kNvfp4, kMixed };
std::string_view to_string(QuantMethod method);

struct QuantConfig {
  QuantMethod method = QuantMethod::kNone;
  int block_rows = 0,
      block_columns = 0;  // elements of a weight [out, in] that share a scale; 0 where the configuration leaves it to each layer
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kQwen3Moe;
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int max_position_embeddings = 0;  // with YaRN at least factor * original_max_position
  float rms_norm_eps = 1e-6F;
  bool tie_word_embeddings = false;
  bool zero_centered_norms = false;    // weights are w of (1 + w)
  bool attention_output_gate = false;  // q_proj has gates beside the queries
  RopeConfig rope;

  // MLP: experts in the layers that layer_is_moe() names, dense in the others.
  int num_experts = 0;
  int experts_per_token = 0;
  int moe_intermediate_size = 0;
  int shared_expert_intermediate_size = 0;
  int intermediate_size = 0;
  bool norm_topk_prob = true;
  int decoder_sparse_step = 1;
  std::vector<int> mlp_only_layers;

  // Linear attention.
  std::vector<LayerKind> layer_kinds;  // one per layer
  int linear_num_key_heads = 0;
  int linear_num_value_heads = 0;
  int linear_key_head_dim = 0;
  int linear_value_head_dim = 0;
  int linear_conv_kernel = 0;

  int mtp_layers = 0;
  std::vector<std::int32_t> eos_ids;  // of config.json alone (both levels), ascending, each once; see stop_ids()
  DType dtype = DType::kBf16;
  QuantConfig quant;

  bool layer_is_moe(int layer) const;
};

// `file` is for messages. Where the language model has its own object (text_config), tie_word_embeddings and dtype of that object count
// before those of the outer one; eos_token_id counts at both.
ModelConfig parse_config(std::string_view json_text, const std::string& file);
// config.json of a folder; hf_quant_config.json beside it where config.json says nothing of quantisation.
ModelConfig load_config(const std::filesystem::path& folder);

// Sampling defaults and stop ids of generation_config.json; members that it does not give keep the neutral values.
struct GenerationDefaults {
  float temperature = 1;
  float top_p = 1;
  int top_k = 0;
  float min_p = 0;
  float repetition_penalty = 1;
  bool do_sample = true;  // false: greedy
  std::vector<std::int32_t> eos_ids;
};
GenerationDefaults parse_generation_config(std::string_view json_text, const std::string& file);
GenerationDefaults load_generation_config(const std::filesystem::path& folder);  // neutral where there is no file

// All ids that end an answer: of both files and `others` (the tokenizer's), ascending, each once.
std::vector<std::int32_t> stop_ids(const ModelConfig& config, const GenerationDefaults& defaults,
                                   std::span<const std::int32_t> others = {});

// Angles per position, rotary_dim / 2 of them, and the factor on cos and sin (1 but for YaRN).
std::vector<double> rope_inverse_frequencies(const RopeConfig& rope);
double rope_attention_factor(const RopeConfig& rope);

}  // namespace qwell
