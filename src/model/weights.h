#pragma once
// The weights of a model, packed for one device and shared by all ranks on it: a rank's part is a range of heads, leaves or experts, so no
// rank holds a copy.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "device/memory.h"
#include "group/member.h"
#include "model/weight_source.h"
#include "ops/ops.h"
#include "tensor/placement.h"

namespace qwell {

// What feeds one layer's MLP: experts with a router, or the blocks of a dense MLP. A dense SwiGLU MLP of width I is the sum of its blocks
// of I / n columns, so it is a mixture of n experts that all rows visit with weight 1: one code path, one sharding, one order of sums.
struct MlpWeights {
  bool routed = false;
  RouterWeights router;                // routed
  std::vector<ExpertWeights> experts;  // all of the model's, or all blocks
  int experts_per_token = 0;           // routed: top-k; dense: all blocks
};

bool mlp_routed(const ModelConfig& config, int layer);
int mlp_blocks(const ModelConfig& config, int layer);             // experts, or blocks of a dense MLP
int mlp_experts_per_token(const ModelConfig& config, int layer);  // top-k, or all blocks

struct LayerWeights {
  NormWeight input_norm, post_attention_norm;
  NormWeight q_norm, k_norm;
  LinearWeight qkv;                         // rows: all q heads, all k heads, all v heads, head_dim each
  std::vector<LinearWeight> output_leaves;  // [H, heads per leaf * head_dim] each
  MlpWeights mlp;
};

struct ModelWeights {
  ModelConfig config;
  DType act = DType::kBf16;  // bf16, or fp32: the type that weights and activations are held in
  std::string numerics_id;

  View embedding;  // act [V, H]
  NormWeight final_norm;
  LinearWeight head;  // [V, H]
  View rope;          // fp32 [positions_max, rotary_dim]
  int rotary_dim = 0;
  std::vector<LayerWeights> layers;

  Arena memory;
};

// Error names what this program does not run yet, or can't: linear attention layers, head sizes that are no multiple of 16.
void check_supported(const ModelConfig& config);

// Bytes that load_weights will take.
std::size_t weights_bytes(const ModelConfig& config, DType act, const Ops& ops, int positions_max);

// Reads and packs all weights. `progress(done, total)` is called now and then with numbers of matrices. Error as the source's.
ModelWeights load_weights(const ModelConfig& config, WeightSource& source, DType act, const Ops& ops, Team& team, int positions_max,
                          const std::function<void(int done, int total)>& progress = {});

}  // namespace qwell
