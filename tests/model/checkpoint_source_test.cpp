#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "model/support/small_checkpoint.h"
#include "model/weight_source.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using namespace testing_support;

std::vector<float> read_f32(WeightSource& source, const WeightKey& key, Range rows, Range columns) {
  std::vector<float> out(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(columns.count), -77.0F);
  source.read(key, rows, columns, View(out.data(), DType::kF32, {rows.count, columns.count}));
  return out;
}

std::vector<std::uint16_t> read_bits(WeightSource& source, const WeightKey& key, Range rows, Range columns) {
  std::vector<std::uint16_t> out(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(columns.count), 0x7fff);
  source.read(key, rows, columns, View(out.data(), DType::kBf16, {rows.count, columns.count}));
  return out;
}

// A key, the tensor that it means, and the matrix in it.
struct Meaning {
  WeightKey key;
  std::string tensor;
  int rows, columns;
};

std::vector<Meaning> meanings() {
  std::vector<Meaning> all = {{{WeightKind::kEmbedding}, "model.embed_tokens.weight", 37, 48},
                              {{WeightKind::kHead}, "lm_head.weight", 37, 48},
                              {{WeightKind::kFinalNorm}, "model.norm.weight", 1, 48},
                              {{WeightKind::kRouter, 0}, "model.layers.0.mlp.gate.weight", 5, 48},
                              {{WeightKind::kGate, 1}, "model.layers.1.mlp.gate_proj.weight", 40, 48},
                              {{WeightKind::kUp, 1}, "model.layers.1.mlp.up_proj.weight", 40, 48},
                              {{WeightKind::kDown, 1}, "model.layers.1.mlp.down_proj.weight", 48, 40}};
  for (int l = 0; l < 2; ++l) {
    const std::string at = fmt::format("model.layers.{}.", l);
    all.push_back({{WeightKind::kInputNorm, l}, at + "input_layernorm.weight", 1, 48});
    all.push_back({{WeightKind::kPostNorm, l}, at + "post_attention_layernorm.weight", 1, 48});
    all.push_back({{WeightKind::kQNorm, l}, at + "self_attn.q_norm.weight", 1, 16});
    all.push_back({{WeightKind::kKNorm, l}, at + "self_attn.k_norm.weight", 1, 16});
    all.push_back({{WeightKind::kQ, l}, at + "self_attn.q_proj.weight", 128, 48});
    all.push_back({{WeightKind::kK, l}, at + "self_attn.k_proj.weight", 32, 48});
    all.push_back({{WeightKind::kV, l}, at + "self_attn.v_proj.weight", 32, 48});
    all.push_back({{WeightKind::kOutput, l}, at + "self_attn.o_proj.weight", 48, 128});
  }
  for (int e = 0; e < 5; ++e) {
    const std::string at = fmt::format("model.layers.0.mlp.experts.{}.", e);
    all.push_back({{WeightKind::kGate, 0, e}, at + "gate_proj.weight", 24, 48});
    all.push_back({{WeightKind::kUp, 0, e}, at + "up_proj.weight", 24, 48});
    all.push_back({{WeightKind::kDown, 0, e}, at + "down_proj.weight", 48, 24});
  }
  return all;
}

std::string error_of_files(const SmallCheckpoint& files) {
  const ScratchFolder folder;
  files.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  return error_of([&] { make_checkpoint_source(checkpoint, files.config()); });
}

TEST(CheckpointSource, EveryKeyMeansItsTensor) {
  const SmallCheckpoint files;
  const ScratchFolder folder;
  files.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  const auto source = make_checkpoint_source(checkpoint, files.config());
  Random random(3);
  EXPECT_EQ(meanings().size(), files.tensors.size());
  for (const Meaning& m : meanings()) {
    const bf16* stored = files.tensors.at(m.tensor).values();
    for (int trial = 0; trial < 6; ++trial) {
      const int r0 = trial == 0 ? 0 : random.range(0, m.rows - 1), c0 = trial == 0 ? 0 : random.range(0, m.columns - 1);
      const Range rows{r0, trial == 0 ? m.rows : random.range(0, m.rows - r0)};
      const Range columns{c0, trial == 0 ? m.columns : random.range(1, m.columns - c0)};
      const auto bits = read_bits(*source, m.key, rows, columns);
      const auto floats = read_f32(*source, m.key, rows, columns);
      for (int r = 0; r < rows.count; ++r) {
        for (int c = 0; c < columns.count; ++c) {
          const bf16 want = stored[(r0 + r) * m.columns + c0 + c];
          const auto at = static_cast<std::size_t>(r * columns.count + c);
          ASSERT_EQ(bits[at], want.bits) << m.tensor;
          ASSERT_EQ(floats[at], to_float(want)) << m.tensor;
        }
      }
    }
  }
}

TEST(CheckpointSource, FusedExpertsAreTheSame) {
  const SmallCheckpoint apart;
  SmallCheckpoint fused;
  fused.fuse();
  const ScratchFolder apart_folder, fused_folder;
  apart.write(apart_folder.path());
  fused.write(fused_folder.path());
  const Checkpoint apart_checkpoint(apart_folder.path()), fused_checkpoint(fused_folder.path());
  const auto a = make_checkpoint_source(apart_checkpoint, apart.config());
  const auto b = make_checkpoint_source(fused_checkpoint, fused.config());
  for (const Meaning& m : meanings()) {
    EXPECT_EQ(read_bits(*a, m.key, {0, m.rows}, {0, m.columns}), read_bits(*b, m.key, {0, m.rows}, {0, m.columns})) << m.tensor;
    const Range rows{m.rows / 3, m.rows - m.rows / 3}, columns{m.columns / 2, m.columns / 3};
    EXPECT_EQ(read_bits(*a, m.key, rows, columns), read_bits(*b, m.key, rows, columns)) << m.tensor;
  }
  EXPECT_THAT(unused_tensors(fused_checkpoint, fused.config()), IsEmpty());
}

TEST(CheckpointSource, ThePrefixOfALargerModel) {
  const SmallCheckpoint plain;
  SmallCheckpoint nested;
  std::map<std::string, SmallTensor> renamed;
  for (auto& [name, tensor] : nested.tensors) {
    renamed[name.starts_with("model.") ? "model.language_model." + name.substr(6) : name] = tensor;
  }
  nested.tensors = std::move(renamed);
  nested.add("model.visual.patch_embed.weight", {3, 2});
  const ScratchFolder folder;
  nested.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  const auto source = make_checkpoint_source(checkpoint, nested.config());
  const auto bits = read_bits(*source, {WeightKind::kUp, 0, 3}, {0, 24}, {0, 48});
  EXPECT_EQ(std::memcmp(bits.data(), plain.tensors.at("model.layers.0.mlp.experts.3.up_proj.weight").bytes.data(), bits.size() * 2), 0);
  EXPECT_THAT(unused_tensors(checkpoint, nested.config()), ElementsAre("model.visual.patch_embed.weight"));
}

TEST(CheckpointSource, ATiedHeadIsTheEmbedding) {
  SmallCheckpoint files;
  files.config_text.replace(files.config_text.find("\"tie_word_embeddings\": false"), 28, "\"tie_word_embeddings\": true");
  for (const bool head_stored : {true, false}) {
    if (!head_stored) files.tensors.erase("lm_head.weight");
    const ScratchFolder folder;
    files.write(folder.path());
    const Checkpoint checkpoint(folder.path());
    const auto source = make_checkpoint_source(checkpoint, files.config());
    EXPECT_EQ(read_bits(*source, {WeightKind::kHead}, {0, 37}, {0, 48}), read_bits(*source, {WeightKind::kEmbedding}, {0, 37}, {0, 48}));
    EXPECT_EQ(unused_tensors(checkpoint, files.config()),
              head_stored ? std::vector<std::string>{"lm_head.weight"} : std::vector<std::string>{});
  }
}

TEST(CheckpointSource, OutlivesTheConfigurationThatItWasMadeOf) {
  const SmallCheckpoint files;
  const ScratchFolder folder;
  files.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  auto config = std::make_unique<ModelConfig>(files.config());
  const auto source = make_checkpoint_source(checkpoint, *config);
  *config = ModelConfig();
  config.reset();
  EXPECT_EQ(read_bits(*source, {WeightKind::kDown, 0, 4}, {47, 1}, {23, 1})[0],
            files.tensors.at("model.layers.0.mlp.experts.4.down_proj.weight").values()[48 * 24 - 1].bits);
}

// Each tensor in turn: taken away, then of another shape.
TEST(CheckpointSource, NamesWhatIsMissingOrMisshapen) {
  const SmallCheckpoint whole;
  for (const auto& [name, tensor] : whole.tensors) {
    SmallCheckpoint files;
    files.tensors.erase(name);
    EXPECT_THAT(error_of_files(files), HasSubstr(fmt::format("tensor \"{}\" is missing", name)));
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      for (const std::int64_t change : {-1, 1}) {
        std::vector<std::int64_t> shape = tensor.shape;
        shape[d] += change;
        files = SmallCheckpoint();
        files.reshape(name, shape);
        EXPECT_THAT(error_of_files(files), HasSubstr(fmt::format("model.safetensors: tensor \"{}\": shape [{}", name, shape[0])));
      }
    }
    files = SmallCheckpoint();
    std::vector<std::int64_t> shape = tensor.shape;
    shape.insert(shape.begin(), 1);  // as many elements, another rank
    files.reshape(name, shape);
    EXPECT_THAT(error_of_files(files), HasSubstr(fmt::format("tensor \"{}\": shape [1, ", name)));
  }
}

TEST(CheckpointSource, SaysWhatShapeTheConfigurationWants) {
  struct Case {
    const char* tensor;
    std::vector<std::int64_t> shape;
    const char* message;
  };
  const Case cases[] = {
      {"model.layers.0.mlp.experts.3.up_proj.weight",
       {12, 48},
       "shape [12, 48], config.json wants [moe_intermediate_size=24, hidden_size=48]"},
      {"model.layers.0.mlp.experts.0.down_proj.weight",
       {24, 48},
       "shape [24, 48], config.json wants [hidden_size=48, moe_intermediate_size=24]"},
      {"model.layers.1.mlp.gate_proj.weight", {24, 48}, "shape [24, 48], config.json wants [intermediate_size=40, hidden_size=48]"},
      {"model.layers.0.mlp.gate.weight", {8, 48}, "shape [8, 48], config.json wants [num_experts=5, hidden_size=48]"},
      {"model.layers.1.self_attn.q_proj.weight",
       {256, 48},
       "shape [256, 48], config.json wants [num_attention_heads * head_dim=128, hidden_size=48]"},
      {"model.layers.1.self_attn.v_proj.weight",
       {64, 48},
       "shape [64, 48], config.json wants [num_key_value_heads * head_dim=32, hidden_size=48]"},
      {"model.layers.1.self_attn.o_proj.weight",
       {128, 48},
       "shape [128, 48], config.json wants [hidden_size=48, num_attention_heads * head_dim=128]"},
      {"model.layers.1.self_attn.k_norm.weight", {32}, "shape [32], config.json wants [head_dim=16]"},
      {"model.norm.weight", {}, "shape [], config.json wants [hidden_size=48]"},
      {"lm_head.weight", {48, 37}, "shape [48, 37], config.json wants [vocab_size=37, hidden_size=48]"},
  };
  for (const Case& c : cases) {
    SmallCheckpoint files;
    files.reshape(c.tensor, c.shape);
    EXPECT_THAT(error_of_files(files), HasSubstr(fmt::format("model.safetensors: tensor \"{}\": {}", c.tensor, c.message)));
  }
  SmallCheckpoint fused;
  fused.fuse();
  fused.reshape("model.layers.0.mlp.experts.gate_up_proj", {5, 24, 48});
  EXPECT_THAT(error_of_files(fused),
              HasSubstr("model.safetensors: tensor \"model.layers.0.mlp.experts.gate_up_proj\": shape [5, 24, 48], config.json "
                        "wants [num_experts=5, 2 * moe_intermediate_size=48, hidden_size=48]"));
}

TEST(CheckpointSource, RefusesNumbersThatItCantReadBeforeReading) {
  SmallCheckpoint files;
  files.tensors.at("model.layers.0.self_attn.k_proj.weight") = {DType::kI32, {32, 48}, std::string(32 * 48 * 4, '\0')};
  EXPECT_THAT(error_of_files(files), AllOf(HasSubstr("model.layers.0.self_attn.k_proj.weight"), HasSubstr("I32")));
  files = SmallCheckpoint();
  files.tensors.at("model.layers.1.mlp.up_proj.weight") = {DType::kE4m3, {40, 48}, std::string(40 * 48, '\x38')};
  EXPECT_THAT(error_of_files(files), AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight"), HasSubstr("without a scale")));
  for (const auto& shape : {std::vector<std::int64_t>{1}, {2, 1}, {1, 2}, {}}) {
    files.tensors["model.layers.1.mlp.up_proj.weight_scale_inv"] = {DType::kF32, {}, std::string(4, '\0')};
    files.reshape("model.layers.1.mlp.up_proj.weight_scale_inv", shape);
    EXPECT_THAT(error_of_files(files), AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight_scale_inv"), HasSubstr("[1, 1]")));
  }
  SmallCheckpoint fused;  // no release has FP8 experts in one tensor
  fused.fuse();
  fused.tensors.at("model.layers.0.mlp.experts.gate_up_proj").dtype = DType::kE4m3;
  fused.reshape("model.layers.0.mlp.experts.gate_up_proj", {5, 48, 48});
  EXPECT_THAT(error_of_files(fused), AllOf(HasSubstr("mlp.experts.gate_up_proj"), HasSubstr("F8_E4M3")));
}

TEST(CheckpointSource, MultipliesFp8ByItsScales) {
  SmallCheckpoint files;
  std::string codes;
  Random random(8);
  for (int i = 0; i < 24 * 48; ++i) codes.push_back(static_cast<char>(float_to_e4m3((random.uniform() - 0.5F) * 100)));
  const float scale = 0.37F;
  files.tensors.at("model.layers.0.mlp.experts.2.gate_proj.weight") = {DType::kE4m3, {24, 48}, codes};
  files.tensors["model.layers.0.mlp.experts.2.gate_proj.weight_scale_inv"] = {
      DType::kF32, {1, 1}, std::string(reinterpret_cast<const char*>(&scale), sizeof(scale))};
  const ScratchFolder folder;
  files.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  const auto source = make_checkpoint_source(checkpoint, files.config());
  const auto got = read_f32(*source, {WeightKind::kGate, 0, 2}, {0, 24}, {0, 48});
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], e4m3_to_float(static_cast<std::uint8_t>(codes[i])) * scale) << i;
  EXPECT_THAT(unused_tensors(checkpoint, files.config()), IsEmpty());
}

TEST(CheckpointSource, ManyThreadsRead) {
  const SmallCheckpoint files;
  const ScratchFolder folder;
  files.write(folder.path());
  const Checkpoint checkpoint(folder.path());
  const auto source = make_checkpoint_source(checkpoint, files.config());
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const Meaning& m : meanings()) {
        const auto bits = read_bits(*source, m.key, {0, m.rows}, {0, m.columns});
        wrong[t] += std::memcmp(bits.data(), files.tensors.at(m.tensor).bytes.data(), bits.size() * 2) != 0 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, Each(0));
}

TEST(UnusedTensors, OfTheBundledModelAreItsMtpModule) {
  const std::filesystem::path folder = std::filesystem::path(QWELL_SOURCE_DIR) / "models/demo";
  const Checkpoint checkpoint(folder);
  const auto unused = unused_tensors(checkpoint, load_config(folder));
  std::vector<std::string> mtp;
  for (const std::string& name : checkpoint.names()) {
    if (name.starts_with("mtp.")) mtp.push_back(name);
  }
  EXPECT_EQ(unused, mtp);
  EXPECT_GT(mtp.size(), 48U);
  EXPECT_NE(make_checkpoint_source(checkpoint, load_config(folder)), nullptr);
}

class EveryFixture : public testing::TestWithParam<const char*> {};

TEST_P(EveryFixture, LeavesNothingOfTheBody) {
  const Checkpoint checkpoint(fixture(GetParam()));
  const ModelConfig config = load_config(fixture(GetParam()));
  const auto unused = unused_tensors(checkpoint, config);
  EXPECT_THAT(unused, Each(StartsWith("mtp.")));
  EXPECT_EQ(unused.empty(), config.mtp_layers == 0);
}

INSTANTIATE_TEST_SUITE_P(All, EveryFixture,
                         testing::Values("qwen3-moe-a", "qwen3-moe-long-a", "qwen3-moe-yarn-tied-a", "qwen3-moe-fp8-a", "qwen3-next-a",
                                         "qwen3.5-moe-a", "qwen3.5-moe-official-a"));

}  // namespace
}  // namespace qwell
