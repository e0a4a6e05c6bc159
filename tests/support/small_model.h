#pragma once
// A small random Qwen3-MoE for tests of what lies above the model: every dimension differs from every other, so that a mix-up shows.

#include "checkpoint/config.h"

namespace qwell::testing {

inline ModelConfig small_config() {
  ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 48;
  c.num_heads = 8;
  c.num_kv_heads = 4;
  c.head_dim = 16;
  c.num_experts = 16;
  c.experts_per_token = 3;
  c.moe_intermediate_size = 24;
  c.intermediate_size = 0;
  c.vocab_size = 131;
  c.max_position_embeddings = 512;
  c.norm_topk_prob = true;
  c.rms_norm_eps = 1e-6F;
  c.rope.theta = 10000;
  c.rope.rotary_dim = 16;
  return c;
}

}  // namespace qwell::testing
