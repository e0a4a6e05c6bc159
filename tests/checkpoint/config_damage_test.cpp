#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/config.h"
#include "checkpoint/support/config_text.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace testing_support;

struct Damage {
  std::vector<Change> changes;
  std::vector<const char*> words;  // of the message, besides the file's name
};

void expect_refused(std::string_view base, const std::vector<Damage>& cases) {
  for (const Damage& damage : cases) {
    const std::string text = changed(base, damage.changes);
    const std::string message = error_of([&] { parse_config(text, "some/config.json"); });
    const auto& first = damage.changes.front();
    EXPECT_THAT(message, HasSubstr("some/config.json: ")) << first.path << " = " << first.value;
    for (const char* word : damage.words) EXPECT_THAT(message, HasSubstr(word)) << first.path << " = " << first.value;
  }
}

TEST(ConfigDamage, NoConfiguration) {
  for (const char* text : {"", "[]", "3", "{", "{} {}", "{\"model_type\": NaN}", "\xff"}) {
    EXPECT_THAT(error_of([&] { parse_config(text, "some/config.json"); }), HasSubstr("some/config.json: ")) << text;
  }
  EXPECT_THAT(error_of([&] { parse_config("{}", "c"); }), AllOf(HasSubstr("model_type"), HasSubstr("missing")));
  const ScratchFolder empty;
  EXPECT_THAT(error_of([&] { load_config(empty.path()); }), HasSubstr("config.json"));
}

TEST(ConfigDamage, MissingFields) {
  for (const char* field : {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings",
                            "num_experts", "num_experts_per_tok", "moe_intermediate_size", "rope_theta", "model_type"}) {
    expect_refused(kQwen3Moe, {{{{field, ""}}, {field, "missing"}}, {{{field, "null"}}, {field, "missing"}}});
  }
  for (const char* field : {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
                            "linear_conv_kernel_dim", "shared_expert_intermediate_size", "rope_parameters.rope_theta"}) {
    const std::string path = std::string("text_config.") + field;
    expect_refused(kQwen35Moe, {{{{path, ""}}, {path.c_str(), "missing"}}});
  }
  expect_refused(kQwen35Moe,
                 {{{{"text_config.full_attention_interval", ""}}, {"text_config.layer_types", "full_attention_interval", "missing"}}});
  expect_refused(kQwen3Moe, {{{{"model_type", "\"qwen3\""}, {"intermediate_size", ""}}, {"intermediate_size", "missing"}},
                             {{{"mlp_only_layers", "[7]"}, {"intermediate_size", ""}}, {"intermediate_size", "missing"}},
                             {{{"head_dim", ""}, {"hidden_size", "2049"}}, {"head_dim", "missing"}}});
}

TEST(ConfigDamage, NumbersThatAreNone) {
  for (const char* field :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
        "max_position_embeddings", "num_experts", "num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step"}) {
    for (const char* value : {"-1", "0", "1.5", "1e30", "99999999999", "18446744073709551615", "\"8\"", "true", "[8]", "{}"}) {
      expect_refused(kQwen3Moe, {{{{field, value}}, {field}}});
    }
  }
  EXPECT_NE(error_of([] { parse_config(R"({"model_type": "qwen3", "num_hidden_layers": 1e400})", "c"); }), "");
  expect_refused(kQwen3Moe, {
                                {{{"rms_norm_eps", "0"}}, {"rms_norm_eps"}},
                                {{{"rms_norm_eps", "-1e-6"}}, {"rms_norm_eps", "-1e-06"}},
                                {{{"rms_norm_eps", "2"}}, {"rms_norm_eps"}},
                                {{{"rope_theta", "0"}}, {"rope_theta"}},
                                {{{"rope_theta", "1"}}, {"rope_theta"}},
                                {{{"rope_theta", "-10000"}}, {"rope_theta", "-10000"}},
                                {{{"rope_theta", "\"1e6\""}}, {"rope_theta"}},
                                {{{"rope_theta", "1e300"}}, {"rope_theta"}},
                                {{{"intermediate_size", "-6"}}, {"intermediate_size", "-6"}},
                                {{{"num_hidden_layers", "100000"}}, {"num_hidden_layers", "100000"}},
                                {{{"partial_rotary_factor", "0"}}, {"partial_rotary_factor"}},
                                {{{"partial_rotary_factor", "1.5"}}, {"partial_rotary_factor", "1.5"}},
                                {{{"partial_rotary_factor", "0.01"}}, {"partial_rotary_factor", "128"}},
                                {{{"num_attention_heads", "16777216"}, {"num_key_value_heads", "1"}}, {"num_attention_heads", "head_dim"}},
                            });
}

TEST(ConfigDamage, FieldsOfOtherTypes) {
  for (const char* field : {"tie_word_embeddings", "norm_topk_prob", "attention_bias", "use_sliding_window"}) {
    expect_refused(kQwen3Moe, {{{{field, "1"}}, {field, "true or false"}}, {{{field, "\"true\""}}, {field, "true or false"}}});
  }
  expect_refused(kQwen3Moe, {
                                {{{"model_type", "3"}}, {"model_type"}},
                                {{{"torch_dtype", "16"}}, {"torch_dtype"}},
                                {{{"rope_scaling", "\"yarn\""}}, {"rope_scaling", "object"}},
                                {{{"rope_parameters", "[]"}}, {"rope_parameters", "object"}},
                                {{{"text_config", "[]"}}, {"text_config", "object"}},
                                {{{"mlp_only_layers", "[\"1\"]"}}, {"mlp_only_layers"}},
                                {{{"mlp_only_layers", "[-1]"}}, {"mlp_only_layers"}},
                                {{{"eos_token_id", "\"x\""}}, {"eos_token_id"}},
                                {{{"eos_token_id", "[1, -2]"}}, {"eos_token_id", "-2"}},
                                {{{"eos_token_id", "1.5"}}, {"eos_token_id"}},
                                {{{"quantization_config", "\"fp8\""}}, {"quantization_config"}},
                            });
}

TEST(ConfigDamage, Contradictions) {
  expect_refused(
      kQwen3Moe,
      {
          {{{"num_local_experts", "64"}}, {"num_experts", "128", "num_local_experts", "64"}},
          {{{"num_experts_per_tok", "129"}}, {"num_experts_per_tok", "129", "128"}},
          {{{"num_key_value_heads", "5"}}, {"num_attention_heads", "32", "num_key_value_heads, 5"}},
          {{{"num_key_value_heads", "64"}}, {"num_key_value_heads, 64"}},
          {{{"dtype", "\"float32\""}}, {"dtype", "float32", "torch_dtype", "bfloat16"}},
          {{{"num_experts", "30000"}}, {"num_experts", "30000", "1048576 in 48 layers"}},
          {{{"num_experts", ""}, {"num_local_experts", "16777216"}}, {"num_local_experts", "16777216"}},
          {{{"mlp_only_layers", "[48]"}}, {"mlp_only_layers", "48"}},
          {{{"layer_types", "[\"full_attention\"]"}}, {"layer_types", "48"}},
          {{{"num_hidden_layers", "1"}, {"layer_types", "[\"linear_attention\"]"}}, {"layer_types", "full_attention"}},
          {{{"rope_parameters", R"({"rope_theta": 5e6})"}}, {"rope_theta", "5000000"}},
          {{{"rope_scaling", R"({"type": "linear", "rope_type": "yarn", "factor": 2})"}}, {"rope_scaling.rope_type", "yarn", "linear"}},
          {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 2})"},
            {"rope_parameters", R"({"rope_type": "yarn", "factor": 4, "rope_theta": 1e6})"}},
           {"rope_scaling", "rope_parameters"}},
          {{{"attn_output_gate", "true"}}, {"attn_output_gate", "false"}},
          {{{"eos_token_id", "151936"}}, {"eos_token_id", "151936", "vocab_size"}},
          {{{"mtp_num_hidden_layers", "1"}, {"num_nextn_predict_layers", "2"}}, {"mtp_num_hidden_layers", "2"}},
      });
  expect_refused(kQwen35Moe,
                 {
                     {{{"text_config.layer_types", "[\"full_attention\"]"}}, {"text_config.layer_types", "60"}},
                     {{{"text_config.linear_num_value_heads", "24"}}, {"text_config.linear_num_value_heads", "24", "16"}},
                     {{{"text_config.model_type", "\"qwen3_moe\""}}, {"text_config.model_type", "qwen3_5_moe"}},
                     {{{"rope_scaling", R"({"rope_type": "yarn", "factor": 4})"}}, {"rope_scaling", "text_config"}},
                     {{{"text_config.linear_num_value_heads", "16777216"}}, {"linear_num_value_heads", "linear_value_head_dim"}},
                 });
  EXPECT_THAT(error_of([] { parse_config(R"({"model_type": "qwen3", "hidden_size": 64, "hidden_size": 128})", "c"); }),
              AllOf(HasSubstr("hidden_size"), HasSubstr("twice")));
}

TEST(ConfigDamage, UnknownKinds) {
  for (const char* type : {"\"qwen4_exp\"", "\"qwen3_8\"", "\"qwen3_vl_moe\"", "\"llama\"", "\"Qwen3\"", "\"qwen3_moe \"", "\"\""}) {
    expect_refused(kQwen3Moe, {{{{"model_type", type}}, {"model_type", type, "qwen3_5_moe"}}});
  }
  expect_refused(kQwen3Moe,
                 {
                     {{{"num_hidden_layers", "1"}, {"layer_types", "[\"sliding_attention\"]"}}, {"layer_types", "sliding_attention"}},
                     {{{"num_hidden_layers", "1"}, {"layer_types", "[3]"}}, {"layer_types"}},
                     {{{"layer_types", "\"full_attention\""}}, {"layer_types"}},
                     {{{"torch_dtype", "\"int8\""}}, {"torch_dtype", "int8"}},
                     {{{"hidden_act", "\"gelu\""}}, {"hidden_act", "gelu", "silu"}},
                     {{{"attention_bias", "true"}}, {"attention_bias"}},
                     {{{"use_sliding_window", "true"}}, {"use_sliding_window"}},
                     {{{"rope_scaling", R"({"rope_type": "linear", "factor": 2})"}}, {"rope_scaling.rope_type", "linear", "yarn"}},
                     {{{"rope_scaling", R"({"type": "dynamic", "factor": 2})"}}, {"rope_scaling.type", "dynamic"}},
                     {{{"rope_scaling", R"({"rope_type": "YARN", "factor": 2})"}}, {"rope_scaling.rope_type", "YARN"}},
                     {{{"rope_scaling", R"({"factor": 2})"}}, {"rope_scaling.rope_type", "missing"}},
                 });
}

TEST(ConfigDamage, Yarn) {
  const auto yarn = [](std::string_view members) {
    return fmt::format(R"({{"rope_type": "yarn"{}{}}})", members.empty() ? "" : ", ", members);
  };
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"", {"factor", "missing"}},
      {R"("factor": 0.5)", {"factor", "0.5"}},
      {R"("factor": 0)", {"factor"}},
      {R"("factor": -4)", {"factor", "-4"}},
      {R"("factor": "4")", {"factor"}},
      {R"("factor": 1e9)", {"factor"}},
      {R"("factor": 1e6)", {"factor", "1000000"}},
      {R"("factor": 4, "original_max_position_embeddings": 0)", {"original_max_position_embeddings"}},
      {R"("factor": 4, "original_max_position_embeddings": 32.5)", {"original_max_position_embeddings"}},
      {R"("factor": 4, "beta_fast": 1)", {"beta_fast", "beta_slow"}},
      {R"("factor": 4, "beta_slow": -1)", {"beta_slow"}},
      {R"("factor": 4, "attention_factor": -1)", {"attention_factor"}},
      {R"("factor": 4, "mscale": -1)", {"mscale"}},
      {R"("factor": 4, "truncate": 0)", {"truncate"}},
  };
  for (const auto& [members, words] : cases) expect_refused(kQwen3Moe, {{{{"rope_scaling", yarn(members)}}, words}});
}

TEST(ConfigDamage, Quantisation) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {R"({})", {"quantization_config.quant_method", "missing"}},
      {R"({"quant_method": "gptq"})", {"quant_method", "gptq"}},
      {R"({"quant_method": "FP8", "weight_block_size": [128, 128]})", {"quant_method", "FP8"}},
      {R"({"quant_method": "fp8"})", {"weight_block_size", "missing"}},
      {R"({"quant_method": "fp8", "weight_block_size": [64, 128]})", {"weight_block_size", "64", "[128, 128]"}},
      {R"({"quant_method": "fp8", "weight_block_size": 128})", {"weight_block_size"}},
      {R"({"quant_method": "fp8", "fmt": "e5m2", "weight_block_size": [128, 128]})", {"fmt", "e5m2"}},
      {R"({"quant_method": "mxfp8", "weight_block_size": [128, 128]})", {"weight_block_size", "[1, 32]"}},
      {R"({"quant_method": "modelopt"})", {"quant_algo", "missing"}},
      {R"({"quant_method": "modelopt", "quant_algo": "FP8"})", {"quant_algo", "FP8", "MXFP8"}},
      {R"({"quant_method": "modelopt", "quant_algo": "MXFP8X"})", {"quant_algo", "MXFP8X"}},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32})", {"group_size", "32", "16"}},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized"})", {"format", "float-quantized"}},
      {R"({"quant_method": "compressed-tensors", "format": "MXFP8-quantized"})", {"format", "MXFP8-quantized"}},
  };
  for (const auto& [text, words] : cases) expect_refused(kQwen3Moe, {{{{"quantization_config", text}}, words}});
}

}  // namespace
}  // namespace qwell
