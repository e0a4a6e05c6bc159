// The forward pass against the reference implementation's outputs (tests/data/fixtures, see its README), for every sharding, chunking and
// page size; and the same bits for all of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "checkpoint/safetensors.h"
#include "device/team.h"
#include "engine/forward_run.h"

namespace qwell {
namespace {

struct Fixture {
  ModelConfig config;
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<std::vector<TokenId>> inputs;
  std::vector<float> logits;               // [B, T, V]
  std::vector<std::vector<float>> hidden;  // [L + 1][B, T, H]
  std::vector<TokenId> greedy;

  explicit Fixture(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(QWELL_TEST_DATA) / "fixtures" / name;
    config = load_config(folder);
    checkpoint = std::make_unique<Checkpoint>(folder);
    const SafetensorsFile reference(folder / "reference.safetensors");
    const TensorView& ids = reference.require("input_ids");
    inputs.resize(static_cast<std::size_t>(ids.shape[0]));
    const std::vector<TokenId> flat = read<TokenId>(ids);
    const auto length = static_cast<std::size_t>(ids.shape[1]);
    for (std::size_t b = 0; b < inputs.size(); ++b)
      inputs[b].assign(flat.begin() + static_cast<std::ptrdiff_t>(b * length),
                       flat.begin() + static_cast<std::ptrdiff_t>((b + 1) * length));
    logits = read<float>(reference.require("logits"));
    for (int l = 0; l <= config.num_layers; ++l) {
      const TensorView* h = reference.find("hidden." + std::to_string(l));
      if (h != nullptr) hidden.push_back(read<float>(*h));
    }
    if (const TensorView* g = reference.find("greedy")) greedy = read<TokenId>(*g);
  }

  template <class T>
  static std::vector<T> read(const TensorView& tensor) {
    std::vector<T> out(tensor.data.size() / sizeof(T));
    std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
    return out;
  }
};

ModelWeights load(const Fixture& fixture, DType act, CpuIsa isa) {
  Team team(1);
  const auto ops = make_cpu_ops(team, isa);
  const auto source = make_checkpoint_source(*fixture.checkpoint, fixture.config);
  return load_weights(fixture.config, *source, act, *ops, team, fixture.config.max_position_embeddings);
}

std::vector<float> flat(const std::vector<std::vector<float>>& parts) {
  std::vector<float> out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::isnan(a[i]) ? 1e9F : std::fabs(a[i] - b[i]));
  return worst;
}

// The best token and how far it is ahead.
struct Best {
  TokenId token = 0;
  float gap = 0;
};
Best best_of(const float* row, std::size_t count) {
  std::vector<float> sorted(row, row + count);
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return {static_cast<TokenId>(std::max_element(row, row + count) - row), sorted[0] - sorted[1]};
}

// Of each row, ||a - b|| / ||b||; sorted.
std::vector<double> row_errors(const std::vector<float>& a, const std::vector<float>& b, std::size_t width) {
  std::vector<double> errors;
  for (std::size_t row = 0; row < a.size() / width; ++row) {
    double difference = 0;
    double norm = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      difference += static_cast<double>((a[i] - b[i]) * (a[i] - b[i]));
      norm += static_cast<double>(b[i] * b[i]);
    }
    errors.push_back(std::sqrt(difference / norm));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

const std::vector<std::string> kFixtures = {"qwen3-moe-a", "qwen3-moe-long-a", "qwen3-moe-yarn-tied-a"};

class Fixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(Fixtures, Float32EqualsTheReference) {
  const Fixture fixture(GetParam());
  for (const CpuIsa isa : cpu_isas()) {
    const ModelWeights weights = load(fixture, DType::kF32, isa);
    auto out = run_forward(weights, fixture.inputs, {.hidden = true, .isa = isa});
    ASSERT_TRUE(out) << out.failure().message;
    const std::vector<float> logits = flat(out->logits);
    const float worst = largest_difference(logits, fixture.logits);
    EXPECT_LT(worst, 2e-3F) << to_string(isa);
    RecordProperty("largest_difference_" + std::string(to_string(isa)), std::to_string(worst));
    const auto vocab = static_cast<std::size_t>(fixture.config.vocab_size);
    for (std::size_t row = 0; row < logits.size() / vocab; ++row) {
      const Best best = best_of(&fixture.logits[row * vocab], vocab);
      if (best.gap <= 5e-3F) continue;
      EXPECT_EQ(best_of(&logits[row * vocab], vocab).token, best.token) << "row " << row;
    }
    for (std::size_t l = 0; l < fixture.hidden.size(); ++l) {
      std::vector<float> ours;
      for (const auto& sequence : out->hidden) ours.insert(ours.end(), sequence[l].begin(), sequence[l].end());
      EXPECT_LT(largest_difference(ours, fixture.hidden[l]), 2e-3F) << "hidden." << l << " " << to_string(isa);
    }
  }
}

// (The `greedy` of the long fixture contradicts its own logits, so only this one's is used; the best tokens are compared above.)
TEST(ForwardRun, GreedyContinuationIsTheReferences) {
  const Fixture fixture("qwen3-moe-a");
  ASSERT_GT(fixture.greedy.size(), fixture.inputs[0].size());
  for (const CpuIsa isa : cpu_isas()) {
    const ModelWeights weights = load(fixture, DType::kF32, isa);
    auto out = run_forward(weights, {fixture.greedy}, {.isa = isa});
    ASSERT_TRUE(out);
    const auto vocab = static_cast<std::size_t>(fixture.config.vocab_size);
    for (std::size_t p = fixture.inputs[0].size() - 1; p + 1 < fixture.greedy.size(); ++p) {
      EXPECT_EQ(best_of(&out->logits[0][p * vocab], vocab).token, fixture.greedy[p + 1]) << "position " << p << " " << to_string(isa);
    }
  }
}

// bf16 arithmetic moves logits a little, and where two experts are nearly as good a row's route, and then much: so most rows must be near,
// and the bound on the rest only says that nothing is broken.
TEST_P(Fixtures, Bfloat16IsNear) {
  const Fixture fixture(GetParam());
  for (const CpuIsa isa : cpu_isas()) {
    const ModelWeights weights = load(fixture, DType::kBf16, isa);
    auto out = run_forward(weights, fixture.inputs, {.isa = isa});
    ASSERT_TRUE(out) << out.failure().message;
    const auto errors = row_errors(flat(out->logits), fixture.logits, static_cast<std::size_t>(fixture.config.vocab_size));
    EXPECT_LT(errors[errors.size() / 2], 0.03) << to_string(isa);
    EXPECT_LT(errors[errors.size() * 3 / 4], 0.1) << to_string(isa);
    EXPECT_LT(errors.back(), 1.0) << to_string(isa);
  }
}

TEST_P(Fixtures, SameBitsForEveryShardingChunkingAndPageSize) {
  const Fixture fixture(GetParam());
  // A long prompt shows nothing more with every combination: its beginning goes through them all.
  std::vector<std::vector<TokenId>> inputs = fixture.inputs;
  for (auto& sequence : inputs) sequence.resize(std::min<std::size_t>(sequence.size(), 160));
  for (const DType act : {DType::kF32, DType::kBf16}) {
    for (const CpuIsa isa : cpu_isas()) {
      const ModelWeights weights = load(fixture, act, isa);
      auto whole = run_forward(weights, inputs, {.isa = isa});
      ASSERT_TRUE(whole);
      const std::vector<float> expected = flat(whole->logits);
      int combination = 0;
      for (const bool distinct : {false, true}) {
        for (const int ranks : {1, 2, 4, 8}) {
          if (distinct && ranks == 8) continue;
          for (const int page : {16, 64, 128}) {
            const int chunk = std::vector<int>{0, 1, 7, 16, 33, 100}[static_cast<std::size_t>(combination++ % 6)];
            auto out = run_forward(weights, inputs,
                                   {.ranks = ranks,
                                    .distinct_rows = distinct,
                                    .chunk = chunk,
                                    .page_tokens = page,
                                    .threads = 1 + combination % 2,
                                    .isa = isa});
            ASSERT_TRUE(out) << out.failure().message;
            const std::vector<float> got = flat(out->logits);
            ASSERT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)), 0)
                << (distinct ? "DP = EP = " : "TP = EP = ") << ranks << " page " << page << " chunk " << chunk << " " << to_string(isa)
                << " " << to_string(act) << ", largest difference " << largest_difference(got, expected);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fixtures, ::testing::ValuesIn(kFixtures), [](const auto& fixture) {
  std::string name = fixture.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(ForwardRun, DenseModelsRunInEverySharding) {
  ModelConfig c;
  c.family = ModelFamily::kQwen3;
  c.num_layers = 2;
  c.hidden_size = 48;
  c.num_heads = 8;
  c.num_kv_heads = 2;
  c.head_dim = 16;
  c.intermediate_size = 96;
  c.vocab_size = 77;
  c.max_position_embeddings = 64;
  c.rope.theta = 1e4;
  c.rope.rotary_dim = 16;
  const auto source = make_random_source(c, 3);
  const CpuIsa isa = cpu_isas().back();
  Team team(1);
  const auto ops = make_cpu_ops(team, isa);
  const ModelWeights weights = load_weights(c, *source, DType::kBf16, *ops, team, 64);
  std::vector<std::vector<TokenId>> inputs = {{1, 2, 3, 4, 5, 6, 7}, {9, 8, 7, 6, 5, 4, 3}, {70, 60, 50, 40, 30, 20, 10}};
  auto whole = run_forward(weights, inputs, {.isa = isa});
  ASSERT_TRUE(whole);
  // 96 = 6 blocks of 16: two leaves.
  for (const bool distinct : {false, true}) {
    auto out = run_forward(weights, inputs, {.ranks = 2, .distinct_rows = distinct, .chunk = 3, .isa = isa});
    ASSERT_TRUE(out) << out.failure().message;
    EXPECT_EQ(out->logits, whole->logits) << distinct;
  }
}

}  // namespace
}  // namespace qwell
