#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/support/config_text.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace testing_support;

ModelConfig parse(std::string_view base, const std::vector<Change>& changes = {}) {
  return parse_config(changed(base, changes), "config.json");
}

TEST(Config, ReadsAReleasedMixture) {
  const ModelConfig c = parse(kQwen3Moe);
  EXPECT_EQ(c.family, ModelFamily::kQwen3Moe);
  EXPECT_EQ(c.num_layers, 48);
  EXPECT_EQ(c.hidden_size, 2048);
  EXPECT_EQ(c.num_heads, 32);
  EXPECT_EQ(c.num_kv_heads, 4);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.num_experts, 128);
  EXPECT_EQ(c.experts_per_token, 8);
  EXPECT_EQ(c.moe_intermediate_size, 768);
  EXPECT_EQ(c.shared_expert_intermediate_size, 0);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_FALSE(c.attention_output_gate);
  EXPECT_FALSE(c.zero_centered_norms);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.rotary_dim, 128);
  EXPECT_EQ(c.rope.kind, RopeConfig::Kind::kDefault);
  EXPECT_EQ(c.max_position_embeddings, 40960);
  EXPECT_EQ(c.rms_norm_eps, 1e-6F);
  EXPECT_EQ(c.vocab_size, 151936);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(c.mtp_layers, 0);
  EXPECT_THAT(c.eos_ids, ElementsAre(151645));
  EXPECT_EQ(c.dtype, DType::kBf16);
  EXPECT_EQ(c.quant.method, QuantMethod::kNone);
  for (int l = 0; l < c.num_layers; ++l) {
    EXPECT_TRUE(c.layer_is_moe(l));
    EXPECT_EQ(c.layer_kinds[static_cast<std::size_t>(l)], LayerKind::kFullAttention);
  }
}

TEST(Config, ReadsAReleasedHybrid) {
  const ModelConfig c = parse(kQwen35Moe);
  EXPECT_EQ(c.family, ModelFamily::kQwen35Moe);
  EXPECT_TRUE(c.attention_output_gate);
  EXPECT_TRUE(c.zero_centered_norms);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.rope.rotary_dim, 64);
  EXPECT_EQ(c.rope.theta, 1e7);
  EXPECT_EQ(c.linear_num_key_heads, 16);
  EXPECT_EQ(c.linear_num_value_heads, 64);
  EXPECT_EQ(c.linear_conv_kernel, 4);
  EXPECT_EQ(c.mtp_layers, 1);
  EXPECT_EQ(c.shared_expert_intermediate_size, 1024);
  EXPECT_THAT(c.eos_ids, ElementsAre(248044));
  EXPECT_EQ(std::count(c.layer_kinds.begin(), c.layer_kinds.end(), LayerKind::kFullAttention), 15);
  EXPECT_EQ(c.layer_kinds[3], LayerKind::kFullAttention);
  EXPECT_EQ(c.layer_kinds[4], LayerKind::kLinearAttention);
}

TEST(Config, ReadsTheFixtures) {
  EXPECT_EQ(load_config(fixture("qwen3-moe-a")).num_experts, 16);
  EXPECT_EQ(load_config(fixture("qwen3-moe-long-a")).max_position_embeddings, 4096);
  EXPECT_EQ(load_config(fixture("qwen3-moe-fp8-a")).head_dim, 128);
  const ModelConfig fp8 = load_config(fixture("qwen3-moe-fp8-a"));
  EXPECT_EQ(fp8.quant.method, QuantMethod::kFp8Block);
  EXPECT_EQ(fp8.quant.block_rows, 128);
  EXPECT_EQ(fp8.quant.block_columns, 128);
  const ModelConfig yarn = load_config(fixture("qwen3-moe-yarn-tied-a"));
  EXPECT_TRUE(yarn.tie_word_embeddings);
  EXPECT_EQ(yarn.rope.kind, RopeConfig::Kind::kYarn);
  EXPECT_EQ(yarn.rope.original_max_position, 32);
  const ModelConfig next = load_config(fixture("qwen3-next-a"));
  EXPECT_EQ(next.family, ModelFamily::kQwen3Next);
  EXPECT_EQ(next.rope.rotary_dim, 8);
  EXPECT_EQ(load_config(fixture("qwen3.5-moe-a")).family, ModelFamily::kQwen35Moe);
  EXPECT_EQ(load_config(fixture("qwen3.5-moe-official-a")).mtp_layers, 1);
}

TEST(Config, AcceptsEveryModelType) {
  const auto family = [](std::string_view base, std::string_view path, std::string_view type) {
    return parse(base, {{path, type}, {"text_config.intermediate_size", "4096"}, {"text_config.model_type", ""}}).family;
  };
  EXPECT_EQ(parse(kQwen3Moe, {{"model_type", "\"qwen3\""}}).family, ModelFamily::kQwen3);
  EXPECT_EQ(family(kQwen35Moe, "model_type", "\"qwen3_next\""), ModelFamily::kQwen3Next);
  EXPECT_EQ(family(kQwen35Moe, "model_type", "\"qwen3_5\""), ModelFamily::kQwen35);
  EXPECT_EQ(family(kQwen35Moe, "model_type", "\"qwen3_5_text\""), ModelFamily::kQwen35);
  EXPECT_EQ(family(kQwen35Moe, "model_type", "\"qwen3_5_moe_text\""), ModelFamily::kQwen35Moe);
  const ModelConfig dense = parse(kQwen3Moe, {{"model_type", "\"qwen3\""}});
  EXPECT_EQ(dense.num_experts, 0);
  EXPECT_FALSE(dense.layer_is_moe(0));
}

TEST(Config, SpellingsOfExperts) {
  EXPECT_EQ(parse(kQwen3Moe, {{"num_experts", ""}, {"num_local_experts", "128"}}).num_experts, 128);
  EXPECT_EQ(parse(kQwen3Moe, {{"num_local_experts", "128"}}).num_experts, 128);
  EXPECT_EQ(parse(kQwen3Moe, {{"num_experts", "128.0"}}).num_experts, 128);
  EXPECT_FALSE(parse(kQwen3Moe, {{"norm_topk_prob", ""}}).norm_topk_prob);  // the default of that class
  EXPECT_FALSE(parse(kQwen35Moe, {{"text_config.norm_topk_prob", "false"}}).norm_topk_prob);
  const ModelConfig sparse = parse(kQwen3Moe, {{"decoder_sparse_step", "2"}, {"mlp_only_layers", "[3, 5, 3]"}});
  std::vector<int> moe;
  for (int l = 0; l < 8; ++l) {
    if (sparse.layer_is_moe(l)) moe.push_back(l);
  }
  EXPECT_THAT(moe, ElementsAre(1, 7));
}

TEST(Config, SpellingsOfEverythingElse) {
  EXPECT_TRUE(parse(kQwen3Moe, {{"tie_word_embeddings", "true"}}).tie_word_embeddings);
  EXPECT_TRUE(parse(kQwen35Moe, {{"tie_word_embeddings", "true"}}).tie_word_embeddings);
  EXPECT_TRUE(parse(kQwen35Moe, {{"tie_word_embeddings", ""}, {"text_config.tie_word_embeddings", "true"}}).tie_word_embeddings);
  EXPECT_FALSE(parse(kQwen3Moe, {{"tie_word_embeddings", ""}}).tie_word_embeddings);
  EXPECT_EQ(parse(kQwen3Moe, {{"torch_dtype", ""}, {"dtype", "\"float32\""}}).dtype, DType::kF32);
  EXPECT_EQ(parse(kQwen3Moe, {{"torch_dtype", "\"float16\""}}).dtype, DType::kF16);
  EXPECT_EQ(parse(kQwen3Moe, {{"dtype", "\"bfloat16\""}}).dtype, DType::kBf16);
  EXPECT_EQ(parse(kQwen35Moe, {{"text_config.dtype", ""}, {"dtype", "\"float32\""}}).dtype, DType::kF32);
  EXPECT_THAT(parse(kQwen3Moe, {{"eos_token_id", "null"}}).eos_ids, IsEmpty());
  EXPECT_THAT(parse(kQwen3Moe, {{"eos_token_id", "[151645, 151643, 151645]"}}).eos_ids, ElementsAre(151643, 151645));
  EXPECT_THAT(parse(kQwen35Moe, {{"eos_token_id", "248046"}}).eos_ids, ElementsAre(248044, 248046));
  EXPECT_EQ(parse(kQwen35Moe, {{"text_config.mtp_num_hidden_layers", ""}, {"text_config.num_nextn_predict_layers", "2"}}).mtp_layers, 2);
  EXPECT_EQ(parse(kQwen3Moe, {{"head_dim", ""}}).head_dim, 64);
  EXPECT_EQ(parse(kQwen3Moe, {{"num_key_value_heads", ""}}).num_kv_heads, 32);
  EXPECT_TRUE(parse(kQwen35Moe, {{"text_config.attn_output_gate", ""}}).attention_output_gate);
  EXPECT_FALSE(parse(kQwen35Moe, {{"text_config.attn_output_gate", "false"}}).attention_output_gate);
  const ModelConfig kinds =
      parse(kQwen35Moe, {{"text_config.num_hidden_layers", "3"},
                         {"text_config.layer_types", R"(["full_attention", "linear_attention", "linear_attention"])"}});
  EXPECT_THAT(kinds.layer_kinds, ElementsAre(LayerKind::kFullAttention, LayerKind::kLinearAttention, LayerKind::kLinearAttention));
}

// YaRN in every place that the wild knows, with one outcome.
TEST(Config, SpellingsOfRope) {
  constexpr std::string_view kYarn = R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})";
  constexpr std::string_view kOldYarn = R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768.0})";
  constexpr std::string_view kBoth =
      R"({"rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1e6})";
  const std::vector<std::vector<Change>> spellings = {
      {{"rope_scaling", kYarn}},
      {{"rope_scaling", kOldYarn}},
      {{"rope_parameters", kYarn}},  // theta beside it
      {{"rope_parameters", kBoth}, {"rope_theta", ""}, {"rope_scaling", ""}},
      {{"rope_parameters", kBoth}},
      {{"rope_parameters", R"({"rope_type": "default", "rope_theta": 1e6})"}, {"rope_theta", ""}, {"rope_scaling", kYarn}},
  };
  for (const auto& changes : spellings) {
    const ModelConfig c = parse(kQwen3Moe, changes);
    EXPECT_EQ(c.rope.kind, RopeConfig::Kind::kYarn);
    EXPECT_EQ(c.rope.factor, 4);
    EXPECT_EQ(c.rope.original_max_position, 32768);
    EXPECT_EQ(c.rope.theta, 1e6);
    EXPECT_EQ(c.rope.rotary_dim, 128);
    EXPECT_EQ(c.max_position_embeddings, 131072);
  }
  const ModelConfig nested = parse(kQwen35Moe, {{"text_config.rope_parameters.rope_type", "\"yarn\""},
                                                {"text_config.rope_parameters.factor", "4"},
                                                {"text_config.rope_parameters.original_max_position_embeddings", "262144"}});
  EXPECT_EQ(nested.rope.kind, RopeConfig::Kind::kYarn);
  EXPECT_EQ(nested.rope.rotary_dim, 64);
  EXPECT_EQ(nested.rope.theta, 1e7);
  EXPECT_EQ(nested.max_position_embeddings, 1048576);
  const ModelConfig from_config = parse(kQwen3Moe, {{"rope_scaling", R"({"rope_type": "yarn", "factor": 2})"}});
  EXPECT_EQ(from_config.rope.original_max_position, 40960);
  const ModelConfig partial = parse(kQwen3Moe, {{"partial_rotary_factor", "0.5"}});
  EXPECT_EQ(partial.rope.rotary_dim, 64);
  EXPECT_EQ(parse(kQwen35Moe, {{"text_config.rope_parameters.partial_rotary_factor", ""}}).rope.rotary_dim, 64);  // the class's default
  const ModelConfig all =
      parse(kQwen3Moe, {{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 16, "beta_slow": 2, "truncate": false,
      "attention_factor": 1.5, "mscale": 0.7, "mscale_all_dim": 0.9})"}});
  EXPECT_EQ(all.rope.beta_fast, 16);
  EXPECT_EQ(all.rope.beta_slow, 2);
  EXPECT_FALSE(all.rope.truncate);
  EXPECT_EQ(rope_attention_factor(all.rope), 1.5);
}

// Golden values of the model specification, section 2.5.
TEST(Rope, YarnGoldenValues) {
  const RopeConfig qwen3 =
      parse(kQwen3Moe, {{"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768})"}}).rope;
  const auto f = rope_inverse_frequencies(qwen3);
  ASSERT_EQ(f.size(), 64U);
  const auto near = [](double got, double want) { EXPECT_NEAR(got / want, 1, 5e-7) << got; };
  EXPECT_EQ(f[0], 1);
  near(f[23], 6.978305849e-3);
  near(f[31], 8.029597e-4);
  near(f[40], 4.445698525e-5);
  near(f[63], 3.102344e-7);
  near(rope_attention_factor(qwen3), 1.138629436);

  const RopeConfig qwen35 = parse(kQwen35Moe, {{"text_config.rope_parameters.rope_type", "\"yarn\""},
                                               {"text_config.rope_parameters.factor", "4"},
                                               {"text_config.rope_parameters.original_max_position_embeddings", "262144"}})
                                .rope;
  const auto g = rope_inverse_frequencies(qwen35);
  ASSERT_EQ(g.size(), 32U);
  near(g[14], 8.659643e-4);
  near(g[18], 7.217387e-5);
  near(g[22], 3.849816e-6);
  near(g[31], 4.137043e-8);
  near(rope_attention_factor(qwen35), 1.138629436);
}

TEST(Rope, DefaultAndCornersOfYarn) {
  RopeConfig rope{.theta = 10000, .rotary_dim = 8};
  const auto plain = rope_inverse_frequencies(rope);
  for (std::size_t j = 0; j < 4; ++j) EXPECT_DOUBLE_EQ(plain[j], std::pow(10000, -static_cast<double>(j) / 4));
  EXPECT_EQ(rope_attention_factor(rope), 1);
  rope.kind = RopeConfig::Kind::kYarn;
  rope.original_max_position = 1;  // all beyond the ramp's end; nothing may become NaN
  rope.factor = 1;
  EXPECT_EQ(rope_attention_factor(rope), 1);
  for (const double f : rope_inverse_frequencies(rope)) EXPECT_TRUE(std::isfinite(f));
  rope.factor = 4;
  rope.mscale = 0.7;
  rope.mscale_all_dim = 0.5;
  EXPECT_DOUBLE_EQ(rope_attention_factor(rope), (0.07 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
  rope.truncate = false;
  rope.original_max_position = 4096;
  const auto smooth = rope_inverse_frequencies(rope);
  const double low = 8 * std::log(4096 / (2 * M_PI * 32)) / (2 * std::log(10000.0)),
               high = 8 * std::log(4096 / (2 * M_PI)) / (2 * std::log(10000.0));
  const double ramp = (2 - low) / (high - low);
  EXPECT_NEAR(smooth[2], 0.01 * (1 - ramp) + 0.0025 * ramp, 1e-12);
}

TEST(Config, ReadsWhatProducersSayOfQuantisation) {
  struct Case {
    std::string_view text;
    QuantMethod method;
    int rows, columns;
  };
  const Case cases[] = {
      {R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})", QuantMethod::kFp8Block,
       128, 128},
      {R"({"quant_method": "mxfp8", "weight_block_size": [1, 32]})", QuantMethod::kMxfp8, 1, 32},
      {R"({"quant_method": "modelopt", "quant_algo": "MXFP8", "group_size": 32})", QuantMethod::kMxfp8, 1, 32},
      {R"({"quant_method": "modelopt", "quant_algo": "mxfp8"})", QuantMethod::kMxfp8, 1, 32},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})", QuantMethod::kNvfp4, 1, 16},
      {R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})", QuantMethod::kMixed, 0, 0},
      {R"({"quant_method": "compressed-tensors", "format": "mxfp8-quantized"})", QuantMethod::kMxfp8, 1, 32},
      {R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})", QuantMethod::kMxfp4, 1, 32},
      {R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"})", QuantMethod::kNvfp4, 1, 16},
  };
  for (const Case& c : cases) {
    for (const std::string_view path : {"quantization_config", "text_config.quantization_config"}) {
      const QuantConfig quant = parse(kQwen35Moe, {{path, c.text}}).quant;
      EXPECT_EQ(quant.method, c.method) << c.text;
      EXPECT_EQ(quant.block_rows, c.rows) << c.text;
      EXPECT_EQ(quant.block_columns, c.columns) << c.text;
    }
  }
}

TEST(Config, ReadsModelOptsFileWhereConfigSaysNothing) {
  const ScratchFolder folder;
  write_file(folder / "config.json", kQwen3Moe);
  EXPECT_EQ(load_config(folder.path()).quant.method, QuantMethod::kNone);
  write_file(folder / "hf_quant_config.json",
             R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}})");
  EXPECT_EQ(load_config(folder.path()).quant.method, QuantMethod::kNvfp4);
  write_file(folder / "hf_quant_config.json", R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})");
  EXPECT_EQ(load_config(folder.path()).quant.method, QuantMethod::kNone);
  write_file(folder / "hf_quant_config.json", R"({"quantization": {"quant_algo": "W3A3"}})");
  EXPECT_THAT(error_of([&] { load_config(folder.path()); }),
              AllOf(HasSubstr("hf_quant_config.json"), HasSubstr("quantization.quant_algo"), HasSubstr("W3A3")));
}

TEST(Generation, ReadsDefaultsAndStops) {
  const GenerationDefaults d = parse_generation_config(
      R"({"do_sample": true, "eos_token_id": [151645, 151643], "temperature": 0.6,
      "top_k": 20, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.05})",
      "g");
  EXPECT_EQ(d.temperature, 0.6F);
  EXPECT_EQ(d.top_p, 0.95F);
  EXPECT_EQ(d.top_k, 20);
  EXPECT_EQ(d.min_p, 0.1F);
  EXPECT_EQ(d.repetition_penalty, 1.05F);
  EXPECT_TRUE(d.do_sample);
  ModelConfig config;
  config.eos_ids = {151645};
  EXPECT_THAT(stop_ids(config, d), ElementsAre(151643, 151645));
  const std::vector<std::int32_t> tokenizer = {7, 151643};
  EXPECT_THAT(stop_ids(config, d, tokenizer), ElementsAre(7, 151643, 151645));
  EXPECT_THAT(stop_ids(ModelConfig{}, GenerationDefaults{}), IsEmpty());

  const GenerationDefaults nothing = parse_generation_config(R"({"temperature": null, "top_k": -1, "eos_token_id": null})", "g");
  EXPECT_EQ(nothing.temperature, 1);
  EXPECT_EQ(nothing.top_k, 0);
  EXPECT_THAT(nothing.eos_ids, IsEmpty());
  EXPECT_THAT(load_generation_config(fixture("qwen3-moe-a")).eos_ids, IsEmpty());  // no such file
  EXPECT_THAT(load_generation_config(fixture("qwen3-moe-fp8-a")).eos_ids, ElementsAre(1));
}

TEST(Generation, RefusesWhatIsNoDefault) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "object"},
      {R"({"temperature": -1})", "temperature"},
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"top_p": 0})", "top_p"},
      {R"({"top_p": 1.5})", "top_p"},
      {R"({"top_k": 2.5})", "top_k"},
      {R"({"top_k": -2})", "top_k"},
      {R"({"min_p": 2})", "min_p"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
      {R"({"do_sample": 1})", "do_sample"},
      {R"({"eos_token_id": -1})", "eos_token_id"},
      {R"({"eos_token_id": ["x"]})", "eos_token_id"},
      {R"({"eos_token_id": 3000000000})", "eos_token_id"},
      {R"({"top_k": 1, "top_k": 2})", "twice"},
  };
  for (const auto& [text, word] : cases) {
    EXPECT_THAT(error_of([&] { parse_generation_config(text, "generation_config.json"); }),
                AllOf(HasSubstr("generation_config.json"), HasSubstr(word)))
        << text;
  }
}

}  // namespace
}  // namespace qwell
