#pragma once
// Configurations in JSON, and small changes of them.

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace qwell::testing_support {

// A released Qwen3-30B-A3B, in the older spelling.
inline constexpr std::string_view kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "bos_token_id": 151643, "decoder_sparse_step": 1,
  "eos_token_id": 151645,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
  "max_position_embeddings": 40960, "mlp_only_layers": [],
  "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000.0,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936})";

// A released Qwen3.5-397B-A17B.
inline constexpr std::string_view kQwen35Moe = R"({
  "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "tie_word_embeddings": false,
  "text_config": {"model_type": "qwen3_5_moe_text", "attention_bias": false, "attn_output_gate": true,
  "dtype": "bfloat16", "eos_token_id": 248044,
    "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 4096,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 64, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 262144, "mlp_only_layers": [], "moe_intermediate_size": 1024,
    "mtp_num_hidden_layers": 1, "num_attention_heads": 32,
    "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 60, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25, "rope_theta": 10000000,
      "rope_type": "default"},
    "shared_expert_intermediate_size": 1024, "vocab_size": 248320},
  "vision_config": {"depth": 27, "hidden_size": 1152}, "image_token_id": 248056})";

// "rope_parameters.factor" = "4.0"; an empty value takes the member away. Objects on the way are made.
struct Change {
  std::string_view path;
  std::string_view value;
};

inline std::string changed(std::string_view base, const std::vector<Change>& changes) {
  json::value root = parse_json_file(base, "base");
  for (const Change& change : changes) {
    json::object* object = &root.as_object();
    std::string_view path = change.path;
    for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
      json::value& next = (*object)[path.substr(0, dot)];
      if (!next.is_object()) next = json::object();
      object = &next.as_object();
      path.remove_prefix(dot + 1);
    }
    if (change.value.empty()) {
      object->erase(path);
    } else {
      (*object)[path] = parse_json_file(change.value, "value");
    }
  }
  JsonWriter w;
  w.value(root);
  return w.text();
}

}  // namespace qwell::testing_support
