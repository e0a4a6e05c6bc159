#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/bits.h"
#include "base/random.h"
#include "model/weight_source.h"

namespace qwell {
namespace {

std::vector<float> read(WeightSource& source, const WeightKey& key, Range rows, Range columns) {
  std::vector<float> out(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(columns.count), -77.0F);
  source.read(key, rows, columns, View(out.data(), DType::kF32, {rows.count, columns.count}));
  return out;
}

// So ranks and packers may ask for any part, in any order.
TEST(RandomSource, APartIsThatPartOfTheWhole) {
  constexpr int kRows = 19, kColumns = 23;
  const auto source = make_random_source({}, 5);
  const WeightKey key{WeightKind::kUp, 3, 7};
  const auto whole = read(*source, key, {0, kRows}, {0, kColumns});
  Random random(2);
  for (int trial = 0; trial < 100; ++trial) {
    const int r0 = random.range(0, kRows - 1), c0 = random.range(0, kColumns - 1);
    const Range rows{r0, random.range(0, kRows - r0)}, columns{c0, random.range(0, kColumns - c0)};
    const auto part = read(*source, key, rows, columns);
    for (int r = 0; r < rows.count; ++r) {
      for (int c = 0; c < columns.count; ++c) {
        ASSERT_EQ(part[static_cast<std::size_t>(r * columns.count + c)], whole[static_cast<std::size_t>((r0 + r) * kColumns + c0 + c)]);
      }
    }
  }
}

TEST(RandomSource, Bf16IsTheRoundedFp32) {
  const auto source = make_random_source({}, 5);
  const WeightKey key{WeightKind::kQ, 0};
  const auto floats = read(*source, key, {4, 3}, {1, 9});
  std::vector<bf16> shorts(27);
  source->read(key, {4, 3}, {1, 9}, View(shorts.data(), DType::kBf16, {3, 9}));
  for (std::size_t i = 0; i < shorts.size(); ++i) EXPECT_EQ(shorts[i].bits, to_bf16(floats[i]).bits);
}

TEST(RandomSource, DependsOnSeedAndKey) {
  std::set<std::vector<float>> seen;
  std::size_t count = 0;
  const auto add = [&](std::uint64_t seed, const WeightKey& key) {
    seen.insert(read(*make_random_source({}, seed), key, {2, 2}, {3, 8}));
    ++count;
  };
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    for (const WeightKind kind : {WeightKind::kEmbedding, WeightKind::kHead}) add(seed, {kind});
    for (const WeightKind kind : {WeightKind::kQ, WeightKind::kK, WeightKind::kV, WeightKind::kOutput, WeightKind::kRouter}) {
      for (const int layer : {0, 1, 93}) add(seed, {kind, layer});
    }
    for (const WeightKind kind : {WeightKind::kGate, WeightKind::kUp, WeightKind::kDown}) {
      for (const int expert : {-1, 0, 1, 511}) add(seed, {kind, 2, expert});
    }
  }
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(read(*make_random_source({}, 9), {WeightKind::kV, 1}, {0, 4}, {0, 5}),
            read(*make_random_source({}, 9), {WeightKind::kV, 1}, {0, 4}, {0, 5}));
}

TEST(RandomSource, HasTheDeviationsThatItPromises) {
  const auto source = make_random_source({}, 11);
  const std::pair<WeightKind, double> cases[] = {{WeightKind::kQ, 0.02}, {WeightKind::kDown, 0.02}, {WeightKind::kRouter, 0.2}};
  for (const auto& [kind, deviation] : cases) {
    const auto values = read(*source, {kind, 0}, {0, 200}, {0, 203});
    double sum = 0, squares = 0;
    for (const float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
      ASSERT_LE(std::fabs(v), deviation * std::sqrt(3.0) * 1.000001);
    }
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.01 * deviation);
  }
  for (const WeightKind kind :
       {WeightKind::kFinalNorm, WeightKind::kInputNorm, WeightKind::kPostNorm, WeightKind::kQNorm, WeightKind::kKNorm}) {
    EXPECT_EQ(read(*source, {kind, 0}, {0, 1}, {2, 5}), std::vector<float>(5, 1.0F));
  }
}

}  // namespace
}  // namespace qwell
