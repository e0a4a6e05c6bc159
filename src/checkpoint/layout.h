#pragma once
// What the tensors of a checkpoint are called and which shapes they have, for every family: the names of the released files, with the forms
// that one weight may take (prefix, experts one by one or in one tensor, a tied head, FP8 with scales). What a file holds is read from the
// names in it, not from the configuration: releases mix the forms.

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/elements.h"
#include "checkpoint/safetensors.h"

namespace qwell {

enum class StoredFormat {
  kPlain,     // one element per number
  kFp8Block,  // F8_E4M3 with `weight_scale_inv`, one F32 or BF16 factor for each block of 128x128
  // Known, not read by this version:
  kFp8Other,  // F8_E4M3 with one scale per tensor or row
  kMxfp8,     // F8_E4M3 with E8M0 bytes for 32 columns each
  kMxfp4,     // two e2m1 in a byte, E8M0 bytes for 32 columns each
  kNvfp4,     // two e2m1 in a byte, F8_E4M3 scales for 16 columns each and one more for the tensor
};
std::string_view to_string(StoredFormat format);

// How the weight `name` ("....weight") is stored, by dtype and by the tensors beside it. kPlain where it is not there in any form.
StoredFormat stored_format(const Checkpoint& checkpoint, std::string_view name);

// Error that names file, tensor and format when it is one that this version does not read.
void refuse_unread_format(const Checkpoint& checkpoint, std::string_view name);

// A tensor that the configuration wants. The names of its dimensions are fields of config.json, or products of them.
struct WantedTensor {
  std::string name;
  std::vector<WantedDimension> shape;
};

enum class ExpertPart { kGate, kUp, kDown };

// Names within one checkpoint, which outlives this. Immutable; safe from many threads.
class TensorLayout {
 public:
  TensorLayout(const Checkpoint& checkpoint, const ModelConfig& config);

  // "model." or, where the language model is part of a larger one, "model.language_model.".
  const std::string& prefix() const { return prefix_; }
  std::string layer_prefix(int layer) const;  // "model.layers.3."
  std::string embedding_name() const;
  std::string head_name() const;  // the embedding where config.json ties them, also if a head is stored
  // MTP layers that the files hold: those numbered from 0 without a gap; 0 when there is none.
  int mtp_layers() const { return mtp_layers_; }
  static std::string mtp_layer_prefix(int layer);  // "mtp.layers.0."; without language_model in any file

  // Whether the layer of this prefix has a router, by the names there: an MTP layer may be dense where the body has experts, and the
  // reverse.
  bool has_experts(std::string_view layer_prefix) const;
  // Whether its experts are in tensors of all of them (mlp.experts.gate_up_proj) or one by one.
  bool has_fused_experts(std::string_view layer_prefix) const;
  // Whether its linear attention has the projections grouped by key head (in_proj_qkvz, in_proj_ba) or apart (in_proj_qkv, _z, _b, _a).
  bool has_grouped_projections(std::string_view layer_prefix) const;

  // All tensors of the body, head included; a tied head is not listed again.
  std::vector<WantedTensor> body_tensors() const;
  // All tensors of the MTP module. Error when the files hold none, saying what was looked for.
  std::vector<WantedTensor> mtp_tensors() const;

  // A tensor by its name, with its scales, as a matrix of rows of its last dimension (a vector is one row). Error: missing, another shape,
  // a format that is not read.
  StoredMatrix matrix(const WantedTensor& wanted) const;
  // One projection of one expert: gate and up are [moe_intermediate_size, hidden_size], down the reverse.
  StoredMatrix expert(std::string_view layer_prefix, int expert, ExpertPart part) const;

  // Looks at all wanted tensors, those of MTP where there is one: what is wrong shows before anything is read. Takes them (see
  // Checkpoint::unconsumed). Gives a notice in the log of plain matrices whose dtype is not the configuration's.
  void check() const;

 private:
  void add_attention(std::vector<WantedTensor>& out, const std::string& layer_prefix) const;
  void add_linear_attention(std::vector<WantedTensor>& out, const std::string& layer_prefix) const;
  void add_mlp(std::vector<WantedTensor>& out, const std::string& layer_prefix, bool moe) const;
  void add_layer(std::vector<WantedTensor>& out, const std::string& layer_prefix, LayerKind kind, bool moe) const;
  std::vector<WantedDimension> expert_shape(ExpertPart part) const;

  const Checkpoint* checkpoint_;
  const ModelConfig* config_;
  std::string prefix_;
  int mtp_layers_ = 0;
};

}  // namespace qwell
