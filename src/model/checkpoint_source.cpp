#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/elements.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"
#include "model/weight_source.h"

namespace qwell {
namespace {

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
    case WeightKind::kGate: return "mlp.gate_proj.weight";
    case WeightKind::kUp: return "mlp.up_proj.weight";
    case WeightKind::kDown: return "mlp.down_proj.weight";
    default: QWELL_CHECK(false, "kind {} is not of a layer", static_cast<int>(kind));
  }
}

ExpertPart part_of(WeightKind kind) {
  QWELL_CHECK(kind == WeightKind::kGate || kind == WeightKind::kUp || kind == WeightKind::kDown, "kind {}", static_cast<int>(kind));
  return kind == WeightKind::kGate ? ExpertPart::kGate : kind == WeightKind::kUp ? ExpertPart::kUp : ExpertPart::kDown;
}

class CheckpointSource final : public WeightSource {
 public:
  CheckpointSource(const Checkpoint& checkpoint, const ModelConfig& config) : config_(config), layout_(checkpoint, config_) {
    for (WantedTensor& tensor : layout_.body_tensors()) {
      layout_.matrix(tensor);  // all that is wrong shows before anything is read
      wanted_.emplace(std::move(tensor.name), std::move(tensor.shape));
    }
  }
  CheckpointSource(const CheckpointSource&) = delete;  // layout_ points to config_
  CheckpointSource& operator=(const CheckpointSource&) = delete;

  void read(const WeightKey& key, Range rows, Range columns, View out) override { read_part(locate(key), rows, columns, out); }

 private:
  StoredMatrix locate(const WeightKey& key) const {
    if (key.expert >= 0) return layout_.expert(layout_.layer_prefix(key.layer), key.expert, part_of(key.kind));
    const std::string name = name_of(key);
    const auto wanted = wanted_.find(name);
    QWELL_CHECK(wanted != wanted_.end(), "a model of this configuration has no {}", name);
    return layout_.matrix({name, wanted->second});
  }

  std::string name_of(const WeightKey& key) const {
    switch (key.kind) {
      case WeightKind::kEmbedding: return layout_.embedding_name();
      case WeightKind::kHead: return layout_.head_name();
      case WeightKind::kFinalNorm: return layout_.prefix() + "norm.weight";
      default: return layout_.layer_prefix(key.layer).append(name_in_layer(key.kind));
    }
  }

  const ModelConfig config_;
  const TensorLayout layout_;
  std::map<std::string, std::vector<WantedDimension>, std::less<>> wanted_;
};

}  // namespace

std::unique_ptr<WeightSource> make_checkpoint_source(const Checkpoint& checkpoint, const ModelConfig& config) {
  return std::make_unique<CheckpointSource>(checkpoint, config);
}

std::vector<std::string> unused_tensors(const Checkpoint& checkpoint, const ModelConfig& config) {
  const TensorLayout layout(checkpoint, config);
  std::set<std::string, std::less<>> used;
  for (const WantedTensor& wanted : layout.body_tensors()) {
    const StoredMatrix matrix = layout.matrix(wanted);
    used.insert(matrix.tensor->name);
    if (matrix.scales != nullptr) used.insert(matrix.scales->name);
  }
  std::vector<std::string> unused;
  for (std::string& name : checkpoint.names()) {
    if (!used.contains(name)) unused.push_back(std::move(name));
  }
  return unused;
}

}  // namespace qwell
