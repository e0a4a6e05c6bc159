#include "checkpoint/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace testing_support;

// A checkpoint copied to memory, to be changed and written elsewhere.
struct Tensors {
  std::map<std::string, TensorToWrite> all;
  std::vector<std::string> own;

  explicit Tensors(const Checkpoint& from) {
    own.reserve(64);
    for (const std::string& name : from.names()) {
      const TensorView& t = *from.find(name);
      all[name] = {name, t.dtype, t.shape, t.data};
    }
  }
  void set(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    std::size_t bytes = static_cast<std::size_t>(size_of(dtype));
    for (const std::int64_t n : shape) bytes *= static_cast<std::size_t>(n);
    all[name] = {name, dtype, std::move(shape), as_span(own.emplace_back(bytes, '\0'))};
  }
  void write(const ScratchFolder& folder) const {
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : all) list.push_back(tensor);
    write_safetensors(folder / "model.safetensors", list);
  }
};

std::vector<float> read_all(const StoredMatrix& m) {
  std::vector<float> out(static_cast<std::size_t>(m.rows) * static_cast<std::size_t>(m.columns));
  read_part(m, {0, m.rows}, {0, m.columns}, View(out.data(), DType::kF32, {m.rows, m.columns}));
  return out;
}

class Fixtures : public testing::TestWithParam<const char*> {};

// Every tensor of a real layout is wanted in its shape, and none is left.
TEST_P(Fixtures, LayoutAndFileAgree) {
  const Checkpoint checkpoint(fixture(GetParam()));
  const ModelConfig config = load_config(fixture(GetParam()));
  const TensorLayout layout(checkpoint, config);
  layout.check();
  EXPECT_THAT(checkpoint.unconsumed(), IsEmpty());
  EXPECT_EQ(layout.mtp_layers(), config.mtp_layers);
}

TEST_P(Fixtures, EveryExpertIsRead) {
  const Checkpoint checkpoint(fixture(GetParam()));
  const ModelConfig config = load_config(fixture(GetParam()));
  const TensorLayout layout(checkpoint, config);
  for (int e = 0; e < config.num_experts; ++e) {
    const StoredMatrix gate = layout.expert(layout.layer_prefix(0), e, ExpertPart::kGate);
    const StoredMatrix down = layout.expert(layout.layer_prefix(0), e, ExpertPart::kDown);
    EXPECT_EQ(gate.rows, config.moe_intermediate_size);
    EXPECT_EQ(down.rows, config.hidden_size);
    EXPECT_NE(read_all(gate), read_all(layout.expert(layout.layer_prefix(0), e, ExpertPart::kUp)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fixtures,
                         testing::Values("qwen3-moe-a", "qwen3-moe-fp8-a", "qwen3-moe-long-a", "qwen3-moe-yarn-tied-a", "qwen3-next-a",
                                         "qwen3.5-moe-a", "qwen3.5-moe-official-a"));

TEST(Layout, FusedExpertsAreTheSameRows) {
  const auto folder = fixture("qwen3.5-moe-official-a");
  const Checkpoint checkpoint(folder);
  const ModelConfig config = load_config(folder);
  const TensorLayout layout(checkpoint, config);
  EXPECT_EQ(layout.prefix(), "model.language_model.");
  const std::string at = layout.layer_prefix(2);
  EXPECT_TRUE(layout.has_fused_experts(at));
  const TensorView& gate_up = checkpoint.require(at + "mlp.experts.gate_up_proj");
  const TensorView& down = checkpoint.require(at + "mlp.experts.down_proj");
  const auto value = [](const TensorView& t, std::int64_t i) {
    bf16 v;
    std::memcpy(&v, t.data.data() + i * 2, sizeof(v));
    return to_float(v);
  };
  const int width = config.moe_intermediate_size, hidden = config.hidden_size;
  for (const int e : {0, 7, config.num_experts - 1}) {
    const auto gate = read_all(layout.expert(at, e, ExpertPart::kGate));
    const auto up = read_all(layout.expert(at, e, ExpertPart::kUp));
    const auto out = read_all(layout.expert(at, e, ExpertPart::kDown));
    for (int i = 0; i < width; ++i) {
      for (int h = 0; h < hidden; ++h) {
        ASSERT_EQ(gate[static_cast<std::size_t>(i * hidden + h)], value(gate_up, (std::int64_t{e} * 2 * width + i) * hidden + h));
        ASSERT_EQ(up[static_cast<std::size_t>(i * hidden + h)], value(gate_up, (std::int64_t{e} * 2 * width + width + i) * hidden + h));
        ASSERT_EQ(out[static_cast<std::size_t>(h * width + i)], value(down, (std::int64_t{e} * hidden + h) * width + i));
      }
    }
  }
}

TEST(Layout, DequantisesTheFp8Fixture) {
  const auto folder = fixture("qwen3-moe-fp8-a");
  const Checkpoint checkpoint(folder);
  const ModelConfig config = load_config(folder);
  EXPECT_EQ(config.quant.method, QuantMethod::kFp8Block);
  const TensorLayout layout(checkpoint, config);
  int quantised = 0;
  for (const WantedTensor& wanted : layout.body_tensors()) {
    const TensorView& stored = checkpoint.require(wanted.name);
    if (stored.dtype != DType::kE4m3) continue;
    ++quantised;
    EXPECT_EQ(stored_format(checkpoint, wanted.name), StoredFormat::kFp8Block);
    const TensorView& scales = checkpoint.require(wanted.name + "_scale_inv");
    const auto values = read_all(layout.matrix(wanted));
    const std::int64_t columns = stored.shape[1];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / columns, column = static_cast<std::int64_t>(i) % columns;
      float scale = 0;
      std::memcpy(&scale, scales.data.data() + (row / 128 * scales.shape[1] + column / 128) * 4, sizeof(scale));
      ASSERT_EQ(values[i], e4m3_to_float(static_cast<std::uint8_t>(stored.data[i])) * scale) << wanted.name;
    }  // three bits of mantissa
  }
  EXPECT_EQ(quantised, 2 * (4 + 3 * 16));
}

TEST(Layout, ATiedHeadIsTheEmbeddingEvenIfOneIsStored) {
  const auto folder = fixture("qwen3-moe-yarn-tied-a");
  const ModelConfig config = load_config(folder);
  const Checkpoint original(folder);
  EXPECT_EQ(TensorLayout(original, config).head_name(), "model.embed_tokens.weight");
  Tensors changed(original);
  changed.set("lm_head.weight", DType::kBf16, {512, 64});
  const ScratchFolder scratch;
  changed.write(scratch);
  const Checkpoint checkpoint(scratch.path());
  const TensorLayout layout(checkpoint, config);
  layout.check();
  EXPECT_EQ(layout.head_name(), "model.embed_tokens.weight");
  EXPECT_THAT(checkpoint.unconsumed(), ElementsAre("lm_head.weight"));
}

TEST(Layout, AnUntiedHeadMustBeThere) {
  const auto folder = fixture("qwen3-moe-a");
  const Checkpoint original(folder);
  Tensors tensors(original);
  tensors.all.erase("lm_head.weight");
  const ScratchFolder scratch;
  tensors.write(scratch);
  const Checkpoint checkpoint(scratch.path());
  const ModelConfig config = load_config(folder);
  EXPECT_THAT(error_of([&] { TensorLayout(checkpoint, config).check(); }), AllOf(HasSubstr("\"lm_head.weight\""), HasSubstr("missing")));
}

TEST(Layout, ShapesAreNamedByTheirFields) {
  const auto folder = fixture("qwen3-moe-a");
  const Checkpoint checkpoint(folder);
  const auto error = [&](auto&& change) {
    ModelConfig config = load_config(folder);
    change(config);
    return error_of([&] { TensorLayout(checkpoint, config).check(); });
  };
  EXPECT_THAT(
      error([](ModelConfig& c) { c.hidden_size = 63; }),
      HasSubstr(
          "model.safetensors: tensor \"model.embed_tokens.weight\": shape [512, 64], config.json wants [vocab_size=512, hidden_size=63]"));
  EXPECT_THAT(error([](ModelConfig& c) { c.moe_intermediate_size = 33; }),
              AllOf(HasSubstr("layers.0.mlp.experts.0.gate_proj.weight"), HasSubstr("[32, 64]"),
                    HasSubstr("[moe_intermediate_size=33, hidden_size=64]")));
  EXPECT_THAT(error([](ModelConfig& c) { c.num_kv_heads = 2; }), HasSubstr("[num_key_value_heads * head_dim=32, hidden_size=64]"));
  EXPECT_THAT(error([](ModelConfig& c) { c.num_experts = 15; }), HasSubstr("[num_experts=15, hidden_size=64]"));
  EXPECT_THAT(error([](ModelConfig& c) {
                c.num_layers = 4;
                c.layer_kinds.push_back(LayerKind::kFullAttention);
              }),
              HasSubstr("model.layers.3."));
  EXPECT_THAT(error([](ModelConfig& c) { c.attention_output_gate = true; }),
              HasSubstr("[2 * num_attention_heads * head_dim=256, hidden_size=64]"));
}

// The MLP of an MTP layer is read from its names, whatever the body has.
TEST(Layout, MtpMlpMayDifferFromTheBody) {
  const auto folder = fixture("qwen3.5-moe-official-a");
  const Checkpoint original(folder);
  ModelConfig config = load_config(folder);
  Tensors tensors(original);
  std::erase_if(tensors.all, [](const auto& item) { return item.first.starts_with("mtp.layers.0.mlp."); });
  tensors.set("mtp.layers.0.mlp.gate_proj.weight", DType::kBf16, {96, 64});
  tensors.set("mtp.layers.0.mlp.up_proj.weight", DType::kBf16, {96, 64});
  tensors.set("mtp.layers.0.mlp.down_proj.weight", DType::kBf16, {64, 96});
  const ScratchFolder dense;
  tensors.write(dense);
  const Checkpoint checkpoint(dense.path());
  EXPECT_THAT(error_of([&] { TensorLayout(checkpoint, config).check(); }),
              AllOf(HasSubstr("mtp.layers.0."), HasSubstr("intermediate_size")));
  config.intermediate_size = 96;
  TensorLayout(checkpoint, config).check();
  EXPECT_THAT(checkpoint.unconsumed(), IsEmpty());

  // One by one where the body's are fused.
  Tensors split(original);
  for (const char* name : {"gate_up_proj", "down_proj"}) split.all.erase(std::string("mtp.layers.0.mlp.experts.") + name);
  split.own.reserve(64);
  for (int e = 0; e < config.num_experts; ++e) {
    const std::string at = fmt::format("mtp.layers.0.mlp.experts.{}.", e);
    split.set(at + "gate_proj.weight", DType::kBf16, {32, 64});
    split.set(at + "up_proj.weight", DType::kBf16, {32, 64});
    split.set(at + "down_proj.weight", DType::kBf16, {64, 32});
  }
  const ScratchFolder scratch;
  split.write(scratch);
  const Checkpoint mixed(scratch.path());
  const TensorLayout layout(mixed, config);
  layout.check();
  EXPECT_THAT(mixed.unconsumed(), IsEmpty());
  EXPECT_EQ(layout.expert(TensorLayout::mtp_layer_prefix(0), 3, ExpertPart::kUp).tensor->name, "mtp.layers.0.mlp.experts.3.up_proj.weight");
}

TEST(Layout, MtpThatIsNotThereIsSaid) {
  const Checkpoint checkpoint(fixture("qwen3-next-a"));
  ModelConfig config = load_config(fixture("qwen3-next-a"));
  config.mtp_layers = 1;
  const TensorLayout layout(checkpoint, config);
  EXPECT_EQ(layout.mtp_layers(), 0);
  EXPECT_THAT(error_of([&] { layout.mtp_tensors(); }), AllOf(HasSubstr("mtp.layers.0."), HasSubstr("MTP")));
}

struct FormatCase {
  const char* format;
  DType weight;
  const char* weight_suffix;
  std::vector<std::pair<const char*, DType>> beside;
};

// As each producer writes a linear layer (model specification, section 4.4).
TEST(Layout, FormatsThatAreNotReadAreRefusedByName) {
  const FormatCase cases[] = {
      {"MXFP8", DType::kE4m3, "weight", {{"weight_scale", DType::kU8}}},
      {"MXFP8", DType::kE4m3, "weight", {{"weight_scale", DType::kE8m0}}},
      {"MXFP8", DType::kE4m3, "weight", {{"weight_scale_inv", DType::kU8}}},
      {"MXFP4", DType::kU8, "weight_packed", {{"weight_scale", DType::kU8}}},
      {"NVFP4", DType::kU8, "weight", {{"weight_scale", DType::kE4m3}, {"weight_scale_2", DType::kF32}, {"input_scale", DType::kF32}}},
      {"NVFP4", DType::kU8, "weight_packed", {{"weight_scale", DType::kE4m3}, {"weight_global_scale", DType::kF32}}},
      {"FP8 (scales per tensor or row)", DType::kE4m3, "weight", {{"weight_scale", DType::kF32}}},
  };
  const auto folder = fixture("qwen3-moe-a");
  const ModelConfig config = load_config(folder);
  const Checkpoint original(folder);
  const std::string linear = "model.layers.1.mlp.experts.5.down_proj.";
  for (const FormatCase& c : cases) {
    Tensors tensors(original);
    tensors.all.erase(linear + "weight");
    tensors.set(linear + c.weight_suffix, c.weight, {64, c.weight == DType::kU8 ? 16 : 32});
    for (const auto& [name, dtype] : c.beside) tensors.set(linear + name, dtype, {64, 1});
    const ScratchFolder scratch;
    tensors.write(scratch);
    const Checkpoint checkpoint(scratch.path());
    const TensorLayout layout(checkpoint, config);
    const std::string message = error_of([&] { layout.check(); });
    EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors"), HasSubstr(linear + c.weight_suffix),
                               HasSubstr(std::string("stored as ") + c.format)));
    EXPECT_EQ(to_string(stored_format(checkpoint, linear + "weight")), c.format);
  }
}

TEST(Layout, Fp8WithoutScaleIsRefused) {
  const auto folder = fixture("qwen3-moe-a");
  const ModelConfig config = load_config(folder);
  const Checkpoint original(folder);
  Tensors tensors(original);
  tensors.set("model.layers.0.self_attn.q_proj.weight", DType::kE4m3, {128, 64});
  const ScratchFolder scratch;
  tensors.write(scratch);
  const Checkpoint checkpoint(scratch.path());
  EXPECT_THAT(error_of([&] { TensorLayout(checkpoint, config).check(); }),
              AllOf(HasSubstr("layers.0.self_attn.q_proj.weight"), HasSubstr("without a scale")));
}

}  // namespace
}  // namespace qwell
