#include "checkpoint/layout.h"

#include "base/error.h"
#include "base/log.h"

namespace qwell {
namespace {

constexpr std::string_view kBody = "model.";
constexpr std::string_view kBodyOfLarger = "model.language_model.";

std::string joined(std::string_view prefix, std::string_view name) { return std::string(prefix).append(name); }

}  // namespace

TensorLayout::TensorLayout(const Checkpoint& checkpoint, const ModelConfig& config)
    : checkpoint_(&checkpoint), config_(&config), prefix_(checkpoint.has_prefix(kBodyOfLarger) ? kBodyOfLarger : kBody) {
  while (checkpoint.has_prefix(mtp_layer_prefix(mtp_layers_))) ++mtp_layers_;
}

std::string TensorLayout::layer_prefix(int layer) const { return fmt::format("{}layers.{}.", prefix_, layer); }
std::string TensorLayout::mtp_layer_prefix(int layer) { return fmt::format("mtp.layers.{}.", layer); }
std::string TensorLayout::embedding_name() const { return prefix_ + "embed_tokens.weight"; }
std::string TensorLayout::head_name() const { return config_->tie_word_embeddings ? embedding_name() : "lm_head.weight"; }

bool TensorLayout::has_experts(std::string_view layer_prefix) const {
  return checkpoint_->find(joined(layer_prefix, "mlp.gate.weight")) != nullptr ||
         checkpoint_->has_prefix(joined(layer_prefix, "mlp.experts."));
}

bool TensorLayout::has_fused_experts(std::string_view layer_prefix) const {
  return checkpoint_->find(joined(layer_prefix, "mlp.experts.gate_up_proj")) != nullptr ||
         checkpoint_->find(joined(layer_prefix, "mlp.experts.down_proj")) != nullptr;
}

bool TensorLayout::has_grouped_projections(std::string_view layer_prefix) const {
  return checkpoint_->has_prefix(joined(layer_prefix, "linear_attn.in_proj_qkvz.")) ||
         checkpoint_->has_prefix(joined(layer_prefix, "linear_attn.in_proj_ba."));
}

void TensorLayout::add_attention(std::vector<WantedTensor>& out, const std::string& layer_prefix) const {
  const ModelConfig& c = *config_;
  const std::int64_t query_width = std::int64_t{c.num_heads} * c.head_dim;
  const WantedDimension hidden{"hidden_size", c.hidden_size};
  const WantedDimension queries{"num_attention_heads * head_dim", query_width};
  const WantedDimension gated{"2 * num_attention_heads * head_dim", 2 * query_width};
  const WantedDimension keys{"num_key_value_heads * head_dim", std::int64_t{c.num_kv_heads} * c.head_dim};
  const WantedDimension head{"head_dim", c.head_dim};
  const std::string at = layer_prefix + "self_attn.";
  out.push_back({at + "q_proj.weight", {c.attention_output_gate ? gated : queries, hidden}});
  out.push_back({at + "k_proj.weight", {keys, hidden}});
  out.push_back({at + "v_proj.weight", {keys, hidden}});
  out.push_back({at + "o_proj.weight", {hidden, queries}});
  out.push_back({at + "q_norm.weight", {head}});
  out.push_back({at + "k_norm.weight", {head}});
}

void TensorLayout::add_linear_attention(std::vector<WantedTensor>& out, const std::string& layer_prefix) const {
  const ModelConfig& c = *config_;
  const std::int64_t key_width = std::int64_t{c.linear_num_key_heads} * c.linear_key_head_dim;
  const std::int64_t value_width = std::int64_t{c.linear_num_value_heads} * c.linear_value_head_dim;
  const WantedDimension hidden{"hidden_size", c.hidden_size};
  const WantedDimension heads{"linear_num_value_heads", c.linear_num_value_heads};
  const WantedDimension values{"linear_num_value_heads * linear_value_head_dim", value_width};
  const WantedDimension mixed{"2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim",
                              2 * key_width + value_width};
  const std::string at = layer_prefix + "linear_attn.";
  if (has_grouped_projections(layer_prefix)) {
    out.push_back({at + "in_proj_qkvz.weight",
                   {{"2 * (linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim)",
                     2 * (key_width + value_width)},
                    hidden}});
    out.push_back({at + "in_proj_ba.weight", {{"2 * linear_num_value_heads", 2 * std::int64_t{c.linear_num_value_heads}}, hidden}});
  } else {
    out.push_back({at + "in_proj_qkv.weight", {mixed, hidden}});
    out.push_back({at + "in_proj_z.weight", {values, hidden}});
    out.push_back({at + "in_proj_b.weight", {heads, hidden}});
    out.push_back({at + "in_proj_a.weight", {heads, hidden}});
  }
  out.push_back({at + "conv1d.weight", {mixed, {"", 1}, {"linear_conv_kernel_dim", c.linear_conv_kernel}}});
  out.push_back({at + "A_log", {heads}});
  out.push_back({at + "dt_bias", {heads}});
  out.push_back({at + "norm.weight", {{"linear_value_head_dim", c.linear_value_head_dim}}});
  out.push_back({at + "out_proj.weight", {hidden, values}});
}

std::vector<WantedDimension> TensorLayout::expert_shape(ExpertPart part) const {
  const WantedDimension hidden{"hidden_size", config_->hidden_size};
  const WantedDimension width{"moe_intermediate_size", config_->moe_intermediate_size};
  return part == ExpertPart::kDown ? std::vector{hidden, width} : std::vector{width, hidden};
}

void TensorLayout::add_mlp(std::vector<WantedTensor>& out, const std::string& layer_prefix, bool moe) const {
  const ModelConfig& c = *config_;
  const WantedDimension hidden{"hidden_size", c.hidden_size};
  const auto add_dense = [&](const std::string& at, const WantedDimension& width) {
    out.push_back({at + "gate_proj.weight", {width, hidden}});
    out.push_back({at + "up_proj.weight", {width, hidden}});
    out.push_back({at + "down_proj.weight", {hidden, width}});
  };
  const std::string at = layer_prefix + "mlp.";
  if (!moe) {
    add_dense(at, {"intermediate_size", c.intermediate_size});
    return;
  }
  const WantedDimension experts{"num_experts", c.num_experts};
  out.push_back({at + "gate.weight", {experts, hidden}});
  if (has_fused_experts(layer_prefix)) {
    out.push_back(
        {at + "experts.gate_up_proj", {experts, {"2 * moe_intermediate_size", 2 * std::int64_t{c.moe_intermediate_size}}, hidden}});
    out.push_back({at + "experts.down_proj", {experts, hidden, {"moe_intermediate_size", c.moe_intermediate_size}}});
  } else {
    for (int e = 0; e < c.num_experts; ++e)
      add_dense(fmt::format("{}experts.{}.", at, e), {"moe_intermediate_size", c.moe_intermediate_size});
  }
  if (c.shared_expert_intermediate_size == 0) return;
  add_dense(at + "shared_expert.", {"shared_expert_intermediate_size", c.shared_expert_intermediate_size});
  out.push_back({at + "shared_expert_gate.weight", {{"", 1}, hidden}});
}

void TensorLayout::add_layer(std::vector<WantedTensor>& out, const std::string& layer_prefix, LayerKind kind, bool moe) const {
  const WantedDimension hidden{"hidden_size", config_->hidden_size};
  out.push_back({layer_prefix + "input_layernorm.weight", {hidden}});
  if (kind == LayerKind::kLinearAttention) {
    add_linear_attention(out, layer_prefix);
  } else {
    add_attention(out, layer_prefix);
  }
  out.push_back({layer_prefix + "post_attention_layernorm.weight", {hidden}});
  add_mlp(out, layer_prefix, moe);
}

std::vector<WantedTensor> TensorLayout::body_tensors() const {
  const ModelConfig& c = *config_;
  QWELL_CHECK(c.layer_kinds.size() == static_cast<std::size_t>(c.num_layers), "{} kinds of {} layers", c.layer_kinds.size(), c.num_layers);
  const WantedDimension hidden{"hidden_size", c.hidden_size};
  const WantedDimension tokens{"vocab_size", c.vocab_size};
  std::vector<WantedTensor> out = {{embedding_name(), {tokens, hidden}}};
  for (int l = 0; l < c.num_layers; ++l) add_layer(out, layer_prefix(l), c.layer_kinds[static_cast<std::size_t>(l)], c.layer_is_moe(l));
  out.push_back({prefix_ + "norm.weight", {hidden}});
  if (!c.tie_word_embeddings) out.push_back({head_name(), {tokens, hidden}});
  return out;
}

std::vector<WantedTensor> TensorLayout::mtp_tensors() const {
  const ModelConfig& c = *config_;
  if (mtp_layers_ == 0) {
    fail("{}: no tensors \"{}...\": an MTP module is wanted, config.json has {} MTP layers", checkpoint_->folder().string(),
         mtp_layer_prefix(0), c.mtp_layers);
  }
  const WantedDimension hidden{"hidden_size", c.hidden_size};
  std::vector<WantedTensor> out = {{"mtp.fc.weight", {hidden, {"2 * hidden_size", 2 * std::int64_t{c.hidden_size}}}},
                                   {"mtp.pre_fc_norm_embedding.weight", {hidden}},
                                   {"mtp.pre_fc_norm_hidden.weight", {hidden}}};
  for (int l = 0; l < mtp_layers_; ++l) {
    const std::string at = mtp_layer_prefix(l);
    const bool moe = has_experts(at);
    if ((moe ? c.num_experts : c.intermediate_size) == 0) {
      fail("{}: \"{}mlp\" {}, config.json has no {}", checkpoint_->folder().string(), at, moe ? "has experts" : "is dense",
           moe ? "num_experts" : "intermediate_size");
    }
    add_layer(out, at, LayerKind::kFullAttention, moe);
  }
  out.push_back({"mtp.norm.weight", {hidden}});
  return out;
}

StoredMatrix TensorLayout::matrix(const WantedTensor& wanted) const {
  const TensorView& tensor = checkpoint_->require(wanted.name, wanted.shape);
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) rows *= tensor.shape[d];
  if (rows > INT32_MAX) fail("{}: tensor \"{}\": {} is more than {} rows", tensor.file, tensor.name, tensor.shape_text(), INT32_MAX);
  StoredMatrix matrix{.tensor = &tensor, .rows = static_cast<int>(rows), .columns = static_cast<int>(tensor.shape.back())};
  if (tensor.dtype == DType::kE4m3 && tensor.shape.size() == 2) matrix.scales = checkpoint_->take(wanted.name + "_scale_inv");
  check_readable(matrix);
  return matrix;
}

StoredMatrix TensorLayout::expert(std::string_view layer_prefix, int expert, ExpertPart part) const {
  const ModelConfig& c = *config_;
  QWELL_CHECK(expert >= 0 && expert < c.num_experts, "expert {} of {}", expert, c.num_experts);
  const std::string at = joined(layer_prefix, "mlp.experts.");
  const std::vector<WantedDimension> shape = expert_shape(part);
  if (!has_fused_experts(layer_prefix)) {
    const std::string_view name = part == ExpertPart::kGate ? "gate_proj" : part == ExpertPart::kUp ? "up_proj" : "down_proj";
    return matrix({fmt::format("{}{}.{}.weight", at, expert, name), shape});
  }
  // [E, 2I, H] with the rows of gate before those of up, or [E, H, I].
  const bool down = part == ExpertPart::kDown;
  WantedDimension rows = shape[0];
  if (!down) rows = {"2 * " + rows.name, 2 * rows.size};
  StoredMatrix all = matrix({at + (down ? "down_proj" : "gate_up_proj"), {{"num_experts", c.num_experts}, rows, shape[1]}});
  const std::int64_t first_row = expert * rows.size + (part == ExpertPart::kUp ? shape[0].size : 0);
  all.offset = first_row * all.columns;
  all.rows = static_cast<int>(shape[0].size);
  return all;
}

void TensorLayout::check() const {
  std::vector<WantedTensor> wanted = body_tensors();
  if (mtp_layers_ > 0) {
    const auto mtp = mtp_tensors();
    wanted.insert(wanted.end(), mtp.begin(), mtp.end());
  }
  int others = 0;
  const TensorView* first = nullptr;
  for (const WantedTensor& w : wanted) {
    const TensorView& tensor = *matrix(w).tensor;
    if (tensor.shape.size() < 2 || tensor.dtype == config_->dtype || tensor.dtype == DType::kE4m3) continue;
    if (first == nullptr) first = &tensor;
    ++others;
  }
  if (first == nullptr) return;
  log::warn("{}: tensor \"{}\": dtype {}, config.json says {} ({} such tensors); read as stored", first->file, first->name,
            to_string(first->dtype), to_string(config_->dtype), others);
}

}  // namespace qwell
