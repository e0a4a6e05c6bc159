// Configurations of released models and of the models in this repository, field by field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/config.h"
#include "checkpoint/support/config_text.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::ElementsAre;
using namespace testing_support;

// What tells one model of a family from another.
struct Shape {
  int layers, hidden, heads, kv_heads, head_dim;
  int experts, per_token, expert_width, shared_width;
  double theta;
  int rotary_dim, positions, vocab;
  int full_attention_layers, linear_value_heads, mtp_layers;
};

void expect_shape(const ModelConfig& c, const Shape& s) {
  EXPECT_EQ(c.num_layers, s.layers);
  EXPECT_EQ(c.hidden_size, s.hidden);
  EXPECT_EQ(c.num_heads, s.heads);
  EXPECT_EQ(c.num_kv_heads, s.kv_heads);
  EXPECT_EQ(c.head_dim, s.head_dim);
  EXPECT_EQ(c.num_experts, s.experts);
  EXPECT_EQ(c.experts_per_token, s.per_token);
  EXPECT_EQ(c.moe_intermediate_size, s.expert_width);
  EXPECT_EQ(c.shared_expert_intermediate_size, s.shared_width);
  EXPECT_EQ(c.rope.theta, s.theta);
  EXPECT_EQ(c.rope.rotary_dim, s.rotary_dim);
  EXPECT_EQ(c.max_position_embeddings, s.positions);
  EXPECT_EQ(c.vocab_size, s.vocab);
  EXPECT_EQ(std::count(c.layer_kinds.begin(), c.layer_kinds.end(), LayerKind::kFullAttention), s.full_attention_layers);
  EXPECT_EQ(static_cast<int>(c.layer_kinds.size()), s.layers);
  EXPECT_EQ(c.linear_num_value_heads, s.linear_value_heads);
  EXPECT_EQ(c.mtp_layers, s.mtp_layers);
  EXPECT_EQ(c.rms_norm_eps, 1e-6F);
  EXPECT_EQ(c.dtype, DType::kBf16);
  EXPECT_TRUE(c.norm_topk_prob);
  for (int l = 0; l < c.num_layers; ++l) EXPECT_TRUE(c.layer_is_moe(l)) << l;
}

ModelConfig parse(std::string_view base, const std::vector<Change>& changes) { return parse_config(changed(base, changes), "config.json"); }

TEST(ReleasedConfig, Qwen3Moe) {
  const Shape large{94, 4096, 64, 4, 128, 128, 8, 1536, 0, 1e6, 128, 40960, 151936, 94, 0, 0};
  const std::vector<Change> changes = {{"num_hidden_layers", "94"},
                                       {"hidden_size", "4096"},
                                       {"num_attention_heads", "64"},
                                       {"moe_intermediate_size", "1536"},
                                       {"intermediate_size", "12288"}};
  expect_shape(parse(kQwen3Moe, changes), large);
  Shape longer = large;  // the 2507 releases differ in base and context only
  longer.theta = 5e6;
  longer.positions = 262144;
  std::vector<Change> changes_2507 = changes;
  changes_2507.insert(changes_2507.end(), {{"rope_theta", "5000000"}, {"max_position_embeddings", "262144"}});
  expect_shape(parse(kQwen3Moe, changes_2507), longer);
  EXPECT_FALSE(parse(kQwen3Moe, changes).zero_centered_norms);
}

TEST(ReleasedConfig, Qwen35Moe) {
  expect_shape(parse(kQwen35Moe, {}), {60, 4096, 32, 2, 256, 512, 10, 1024, 1024, 1e7, 64, 262144, 248320, 15, 64, 1});
  expect_shape(parse(kQwen35Moe, {{"text_config.num_hidden_layers", "40"},
                                  {"text_config.hidden_size", "2048"},
                                  {"text_config.num_attention_heads", "16"},
                                  {"text_config.num_experts", "256"},
                                  {"text_config.num_experts_per_tok", "8"},
                                  {"text_config.moe_intermediate_size", "512"},
                                  {"text_config.shared_expert_intermediate_size", "512"},
                                  {"text_config.linear_num_value_heads", "32"}}),
               {40, 2048, 16, 2, 256, 256, 8, 512, 512, 1e7, 64, 262144, 248320, 10, 32, 1});
}

TEST(ReleasedConfig, Qwen3Next) {
  const ModelConfig c = parse_config(R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "attention_bias": false,
    "bos_token_id": 151643, "eos_token_id": 151645, "decoder_sparse_step": 1, "full_attention_interval": 4, "head_dim": 256,
    "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
    "mlp_only_layers": [], "moe_intermediate_size": 512, "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512,
    "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 10000000, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936})",
                                     "config.json");
  EXPECT_EQ(c.family, ModelFamily::kQwen3Next);
  expect_shape(c, {48, 2048, 16, 2, 256, 512, 10, 512, 512, 1e7, 64, 262144, 151936, 12, 32, 0});
  EXPECT_TRUE(c.attention_output_gate);
  EXPECT_TRUE(c.zero_centered_norms);
  EXPECT_EQ(c.linear_num_key_heads, 16);
  EXPECT_EQ(c.linear_key_head_dim, 128);
  EXPECT_EQ(c.linear_value_head_dim, 128);
}

TEST(ReleasedConfig, DenseQwen3) {  // head_dim is of the configuration: 16 * 128 is not 1024
  const ModelConfig c = parse(kQwen3Moe, {{"model_type", "\"qwen3\""},
                                          {"num_hidden_layers", "28"},
                                          {"hidden_size", "1024"},
                                          {"num_attention_heads", "16"},
                                          {"num_key_value_heads", "8"},
                                          {"intermediate_size", "3072"},
                                          {"num_experts", ""},
                                          {"num_experts_per_tok", ""},
                                          {"moe_intermediate_size", ""},
                                          {"tie_word_embeddings", "true"}});
  EXPECT_EQ(c.family, ModelFamily::kQwen3);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.intermediate_size, 3072);
  EXPECT_EQ(c.num_experts, 0);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.layer_is_moe(27));
}

TEST(OwnConfig, Fixtures) {
  const Shape moe{3, 64, 8, 4, 16, 16, 4, 32, 0, 1e6, 16, 512, 512, 3, 0, 0};
  expect_shape(load_config(fixture("qwen3-moe-a")), moe);
  Shape longer = moe;
  longer.positions = 4096;
  expect_shape(load_config(fixture("qwen3-moe-long-a")), longer);
  Shape yarn = moe;
  yarn.theta = 1e4;
  yarn.positions = 128;
  expect_shape(load_config(fixture("qwen3-moe-yarn-tied-a")), yarn);
  EXPECT_EQ(load_config(fixture("qwen3-moe-yarn-tied-a")).rope.factor, 4);
  expect_shape(load_config(fixture("qwen3-moe-fp8-a")), {2, 256, 8, 2, 128, 16, 4, 128, 0, 1e6, 128, 4096, 512, 2, 0, 0});
  const Shape hybrid{4, 64, 4, 2, 32, 16, 4, 32, 32, 1e4, 8, 512, 512, 1, 8, 0};
  expect_shape(load_config(fixture("qwen3-next-a")), hybrid);
  expect_shape(load_config(fixture("qwen3.5-moe-a")), hybrid);
  Shape official = hybrid;
  official.mtp_layers = 1;
  expect_shape(load_config(fixture("qwen3.5-moe-official-a")), official);
  for (const char* name : {"qwen3-moe-a", "qwen3-next-a", "qwen3.5-moe-a", "qwen3.5-moe-official-a"}) {
    EXPECT_THAT(load_config(fixture(name)).eos_ids, ElementsAre(1)) << name;
    EXPECT_FALSE(load_config(fixture(name)).tie_word_embeddings) << name;
  }
}

TEST(OwnConfig, BundledModel) {
  const std::filesystem::path folder = std::filesystem::path(QWELL_SOURCE_DIR) / "models/demo";
  const ModelConfig c = load_config(folder);
  expect_shape(c, {8, 256, 8, 4, 64, 16, 4, 128, 0, 1e5, 64, 2048, 8192, 8, 0, 1});
  EXPECT_TRUE(c.tie_word_embeddings);
  const GenerationDefaults d = load_generation_config(folder);
  EXPECT_EQ(d.temperature, 0.6F);
  EXPECT_EQ(d.top_k, 20);
  EXPECT_EQ(d.top_p, 0.95F);
  EXPECT_THAT(stop_ids(c, d), ElementsAre(8183, 8185));
}

}  // namespace
}  // namespace qwell
