#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "checkpoint/elements.h"
#include "checkpoint/safetensors.h"
#include "model/weight_source.h"

namespace qwell {
namespace {

// Of a key's matrix: the shape that the configuration wants, with the fields' names for the message.
struct WantedShape {
  int rows = 0, columns = 0;
  const char* rows_name = "";
  const char* columns_name = "";
};

WantedShape wanted_shape(const ModelConfig& c, const WeightKey& key) {
  switch (key.kind) {
    case WeightKind::kEmbedding:
    case WeightKind::kHead: return {c.vocab_size, c.hidden_size, "vocab_size", "hidden_size"};
    case WeightKind::kFinalNorm:
    case WeightKind::kInputNorm:
    case WeightKind::kPostNorm: return {1, c.hidden_size, "", "hidden_size"};
    case WeightKind::kQNorm:
    case WeightKind::kKNorm: return {1, c.head_dim, "", "head_dim"};
    case WeightKind::kQ: return {c.num_heads * c.head_dim, c.hidden_size, "num_attention_heads * head_dim", "hidden_size"};
    case WeightKind::kK:
    case WeightKind::kV: return {c.num_kv_heads * c.head_dim, c.hidden_size, "num_key_value_heads * head_dim", "hidden_size"};
    case WeightKind::kOutput: return {c.hidden_size, c.num_heads * c.head_dim, "hidden_size", "num_attention_heads * head_dim"};
    case WeightKind::kRouter: return {c.num_experts, c.hidden_size, "num_experts", "hidden_size"};
    default: break;
  }
  const bool expert = key.expert >= 0;
  const int width = expert ? c.moe_intermediate_size : c.intermediate_size;
  const char* width_name = expert ? "moe_intermediate_size" : "intermediate_size";
  if (key.kind == WeightKind::kDown) return {c.hidden_size, width, "hidden_size", width_name};
  return {width, c.hidden_size, width_name, "hidden_size"};
}

std::string_view name_in_layer(WeightKind kind) {
  switch (kind) {
    case WeightKind::kInputNorm: return "input_layernorm.weight";
    case WeightKind::kPostNorm: return "post_attention_layernorm.weight";
    case WeightKind::kQNorm: return "self_attn.q_norm.weight";
    case WeightKind::kKNorm: return "self_attn.k_norm.weight";
    case WeightKind::kQ: return "self_attn.q_proj.weight";
    case WeightKind::kK: return "self_attn.k_proj.weight";
    case WeightKind::kV: return "self_attn.v_proj.weight";
    case WeightKind::kOutput: return "self_attn.o_proj.weight";
    case WeightKind::kRouter: return "mlp.gate.weight";
    default: return "";
  }
}

std::string_view name_in_mlp(WeightKind kind) {
  switch (kind) {
    case WeightKind::kGate: return "gate_proj";
    case WeightKind::kUp: return "up_proj";
    default: return "down_proj";
  }
}

class CheckpointSource final : public WeightSource {
 public:
  CheckpointSource(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint),
        config_(config),
        prefix_(checkpoint.find("model.language_model.embed_tokens.weight") != nullptr ? "model.language_model." : "model.") {}

  void read(const WeightKey& key, Range rows, Range columns, View out) override { read_part(locate(key), rows, columns, out); }

  // Where a key's matrix is; Error names file, tensor and what is wrong with it.
  StoredMatrix locate(const WeightKey& key) const {
    const WantedShape wanted = wanted_shape(config_, key);
    switch (key.kind) {
      case WeightKind::kEmbedding: return plain(prefix_ + "embed_tokens.weight", wanted);
      case WeightKind::kHead: return plain(config_.tie_word_embeddings ? prefix_ + "embed_tokens.weight" : "lm_head.weight", wanted);
      case WeightKind::kFinalNorm: return plain(prefix_ + "norm.weight", wanted);
      default: break;
    }
    const std::string layer = fmt::format("{}layers.{}.", prefix_, key.layer);
    if (const std::string_view name = name_in_layer(key.kind); !name.empty()) return plain(layer + std::string(name), wanted);
    if (key.expert < 0) return plain(fmt::format("{}mlp.{}.weight", layer, name_in_mlp(key.kind)), wanted);
    const std::string experts = layer + "mlp.experts.";
    const bool down = key.kind == WeightKind::kDown;
    if (const TensorView* fused = checkpoint_.find(experts + (down ? "down_proj" : "gate_up_proj")))
      return part_of_fused(*fused, key, wanted);
    return plain(fmt::format("{}{}.{}.weight", experts, key.expert, name_in_mlp(key.kind)), wanted);
  }

 private:
  // All experts in one tensor: [E, 2I, H] with the gates' rows first, or [E, H, I].
  StoredMatrix part_of_fused(const TensorView& tensor, const WeightKey& key, const WantedShape& wanted) const {
    const bool down = key.kind == WeightKind::kDown;
    const std::vector<std::int64_t> shape = {config_.num_experts, down ? wanted.rows : 2 * wanted.rows, wanted.columns};
    if (tensor.shape != shape) {
      fail("{}: tensor \"{}\": shape {}, config.json wants [num_experts={}, {}{}={}, {}={}]", tensor.file, tensor.name, tensor.shape_text(),
           config_.num_experts, down ? "" : "2 * ", wanted.rows_name, shape[1], wanted.columns_name, wanted.columns);
    }
    const std::int64_t row = key.expert * shape[1] + (key.kind == WeightKind::kUp ? wanted.rows : 0);
    return {.tensor = &tensor, .offset = row * wanted.columns, .rows = wanted.rows, .columns = wanted.columns};
  }

  StoredMatrix plain(const std::string& name, const WantedShape& wanted) const {
    const TensorView& tensor = checkpoint_.require(name);
    const bool vector = wanted.rows_name[0] == '\0';
    const std::vector<std::int64_t> shape =
        vector ? std::vector<std::int64_t>{wanted.columns} : std::vector<std::int64_t>{wanted.rows, wanted.columns};
    if (tensor.shape != shape) {
      const std::string rows = vector ? "" : fmt::format("{}={}, ", wanted.rows_name, wanted.rows);
      fail("{}: tensor \"{}\": shape {}, config.json wants [{}{}={}]", tensor.file, name, tensor.shape_text(), rows, wanted.columns_name,
           wanted.columns);
    }
    StoredMatrix matrix{.tensor = &tensor, .rows = wanted.rows, .columns = wanted.columns};
    if (tensor.dtype == DType::kE4m3) matrix.scales = &scales_of(tensor, wanted);
    return matrix;
  }

  const TensorView& scales_of(const TensorView& tensor, const WantedShape& wanted) const {
    const TensorView& scales = checkpoint_.require(tensor.name + "_scale_inv");
    const std::vector<std::int64_t> shape = {(wanted.rows + 127) / 128, (wanted.columns + 127) / 128};
    if (scales.shape != shape || (scales.dtype != DType::kF32 && scales.dtype != DType::kBf16)) {
      fail("{}: tensor \"{}\": {} {}, F32 or BF16 [{}, {}] is wanted: one scale for each 128x128 block of {}", scales.file, scales.name,
           to_string(scales.dtype), scales.shape_text(), shape[0], shape[1], tensor.shape_text());
    }
    return scales;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const std::string prefix_;
};

// Every matrix that a model of this configuration has.
std::vector<WeightKey> all_keys(const ModelConfig& c) {
  std::vector<WeightKey> keys = {{WeightKind::kEmbedding}, {WeightKind::kHead}, {WeightKind::kFinalNorm}};
  for (int l = 0; l < c.num_layers; ++l) {
    for (const WeightKind kind : {WeightKind::kInputNorm, WeightKind::kPostNorm, WeightKind::kQNorm, WeightKind::kKNorm, WeightKind::kQ,
                                  WeightKind::kK, WeightKind::kV, WeightKind::kOutput}) {
      keys.push_back({kind, l});
    }
    const bool routed = c.layer_is_moe(l);
    if (routed) keys.push_back({WeightKind::kRouter, l});
    for (int e = routed ? 0 : -1; e < (routed ? c.num_experts : 0); ++e) {
      for (const WeightKind kind : {WeightKind::kGate, WeightKind::kUp, WeightKind::kDown}) keys.push_back({kind, l, e});
    }
  }
  return keys;
}

}  // namespace

std::unique_ptr<WeightSource> make_checkpoint_source(const Checkpoint& checkpoint, const ModelConfig& config) {
  auto source = std::make_unique<CheckpointSource>(checkpoint, config);
  for (const WeightKey& key : all_keys(config)) source->locate(key);  // all that is wrong shows before anything is allocated
  return source;
}

std::vector<std::string> unused_tensors(const Checkpoint& checkpoint, const ModelConfig& config) {
  const CheckpointSource source(checkpoint, config);
  std::map<std::string, bool, std::less<>> used;
  for (const std::string& name : checkpoint.names()) used[name] = false;
  for (const WeightKey& key : all_keys(config)) {
    const StoredMatrix matrix = source.locate(key);
    used[matrix.tensor->name] = true;
    if (matrix.scales != nullptr) used[matrix.scales->name] = true;
  }
  std::vector<std::string> unused;
  for (const auto& [name, is_used] : used) {
    if (!is_used) unused.push_back(name);
  }
  return unused;
}

}  // namespace qwell
