// The CPU kernels of every instruction set that this processor has, against the reference, on random awkward shapes; and the same bits
// whatever shares the batch.

#include "ops/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/bits.h"
#include "base/random.h"
#include "device/team.h"

namespace qwell {
namespace {

// A dense matrix that owns its numbers.
struct Matrix {
  std::vector<std::byte> bytes;
  View view;

  Matrix(DType dtype, std::int64_t rows, std::int64_t columns) : bytes(static_cast<std::size_t>(rows * columns * size_of(dtype)) + 64) {
    view = View(bytes.data(), dtype, {rows, columns});
  }
  float at(std::int64_t i) const { return view.dtype == DType::kF32 ? view.as<float>()[i] : to_float(view.as<bf16>()[i]); }
  void set(std::int64_t i, float v) {
    if (view.dtype == DType::kF32) {
      view.as<float>()[i] = v;
    } else {
      view.as<bf16>()[i] = to_bf16(v);
    }
  }
};

Matrix random_matrix(Random& random, DType dtype, std::int64_t rows, std::int64_t columns, float scale = 1) {
  Matrix m(dtype, rows, columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) m.set(i, random.normal() * scale);
  return m;
}

// Packed weights and the memory under them.
struct Packed {
  std::vector<std::byte> bytes;
  LinearWeight weight;

  Packed(const Ops& ops, const Matrix& m)
      : bytes(static_cast<std::size_t>(ops.packed_bytes(m.view.dtype, m.view.shape[0], m.view.shape[1]))) {
    ops.pack(m.view.dtype, m.view.shape[0], m.view.shape[1], 0, m.view, bytes.data());
    weight = {bytes.data(), m.view.dtype, m.view.shape[0], m.view.shape[1]};
  }
};

void expect_near(const Matrix& got, const Matrix& want, double relative, const std::string& what) {
  double norm = 0;
  double worst = 0;
  const std::int64_t n = want.view.elements();
  for (std::int64_t i = 0; i < n; ++i) norm += static_cast<double>(want.at(i)) * static_cast<double>(want.at(i));
  norm = std::sqrt(norm / static_cast<double>(std::max<std::int64_t>(n, 1)));
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = std::fabs(static_cast<double>(got.at(i)) - static_cast<double>(want.at(i)));
    worst = std::max(worst, std::isnan(d) ? 1e30 : d);
  }
  EXPECT_LE(worst, relative * norm + 1e-30) << what << " " << want.view.shape_text();
}

double tolerance(DType dtype) { return dtype == DType::kF32 ? 2e-4 : 6e-2; }

class OpsTest : public ::testing::TestWithParam<std::tuple<CpuIsa, DType>> {
 protected:
  CpuIsa isa() const { return std::get<0>(GetParam()); }
  DType act() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Ops> reference = make_reference_ops();
};

TEST_P(OpsTest, LinearOnAwkwardShapes) {
  Random random(1);
  Team team(2);
  const auto ops = make_cpu_ops(team, isa());
  for (const int rows : {0, 1, 2, 5, 6, 7, 13, 64}) {
    for (const int n : {1, 15, 16, 17, 33, 130}) {
      for (const int k : {1, 2, 3, 16, 31, 130}) {
        const Matrix in = random_matrix(random, act(), rows, k);
        const Matrix w = random_matrix(random, act(), n, k);
        const Packed ours(*ops, w);
        const Packed plain(*reference, w);
        Matrix got(DType::kF32, rows, n);
        Matrix want(DType::kF32, rows, n);
        ops->linear({in.view, ours.weight, got.view, {rows, &rows}});
        reference->linear({in.view, plain.weight, want.view, {rows, &rows}});
        expect_near(got, want, 1e-4, fmt::format("linear k {}", k));
        // One row alone: the same bits.
        if (rows == 0) continue;
        const std::int32_t one = 1;
        Matrix alone(DType::kF32, 1, n);
        ops->linear({in.view.rows(rows - 1, 1), ours.weight, alone.view, {1, &one}});
        ASSERT_EQ(std::memcmp(alone.view.data, got.view.at_bytes((rows - 1) * n), static_cast<std::size_t>(n) * 4), 0);
      }
    }
  }
}

TEST_P(OpsTest, ExpertsAgreeAndSplitOverRanks) {
  Random random(2);
  Team team(2);
  const auto ops = make_cpu_ops(team, isa());
  constexpr int kExperts = 8;
  constexpr int kPerToken = 3;
  constexpr int kWidth = 24;
  constexpr int kHidden = 40;
  std::vector<Packed> ours;
  std::vector<Packed> plain;
  for (int e = 0; e < kExperts; ++e) {
    for (const auto& [n, k] : {std::pair{kWidth, kHidden}, std::pair{kWidth, kHidden}, std::pair{kHidden, kWidth}}) {
      const Matrix w = random_matrix(random, act(), n, k, 0.3F);
      ours.emplace_back(*ops, w);
      plain.emplace_back(*reference, w);
    }
  }
  const auto table = [](const std::vector<Packed>& from) {
    std::vector<ExpertWeights> out;
    for (std::size_t e = 0; e < from.size(); e += 3) out.push_back({from[e].weight, from[e + 1].weight, from[e + 2].weight});
    return out;
  };
  const auto our_experts = table(ours);
  const auto plain_experts = table(plain);
  for (const int rows : {0, 1, 9, 70}) {
    const Matrix in = random_matrix(random, act(), rows, kHidden);
    Matrix ids(DType::kI32, rows, kPerToken);
    Matrix weights(DType::kF32, rows, kPerToken);
    for (int r = 0; r < rows; ++r) {
      std::array<std::int32_t, kPerToken> chosen{};
      const int first = rows == 70 ? 0 : random.range(0, kExperts - kPerToken);  // 70 rows: all to the same experts
      for (int i = 0; i < kPerToken; ++i) {
        chosen[static_cast<std::size_t>(i)] = first + i;
        ids.view.as<std::int32_t>()[r * kPerToken + i] = chosen[static_cast<std::size_t>(i)];
        weights.set(r * kPerToken + i, random.uniform());
      }
    }
    Matrix got(DType::kF32, rows, kHidden);
    Matrix want(DType::kF32, rows, kHidden);
    ops->experts({in.view, ids.view, weights.view, our_experts, 0, 1, got.view, {rows, &rows}});
    reference->experts({in.view, ids.view, weights.view, plain_experts, 0, 1, want.view, {rows, &rows}});
    expect_near(got, want, tolerance(act()), "experts");
    // Two ranks with half of the experts each: their sum is the tree's root, bit by bit.
    Matrix low(DType::kF32, rows, kHidden);
    Matrix high(DType::kF32, rows, kHidden);
    const std::span all(our_experts);
    ops->experts({in.view, ids.view, weights.view, all.first(4), 0, 1, low.view, {rows, &rows}});
    ops->experts({in.view, ids.view, weights.view, all.last(4), 4, 1, high.view, {rows, &rows}});
    for (std::int64_t i = 0; i < got.view.elements(); ++i) ASSERT_EQ(low.at(i) + high.at(i), got.at(i));
  }
}

TEST_P(OpsTest, AttentionOverPages) {
  Random random(3);
  Team team(2);
  const auto ops = make_cpu_ops(team, isa());
  for (const auto& [dim, kv_heads, group, page] : {std::tuple{16, 2, 4, 16}, std::tuple{64, 1, 1, 64}, std::tuple{128, 2, 8, 128}}) {
    const PageLayout layout{act(), page, kv_heads, dim};
    // A chunk that ends at 530 keys (two splits), a decode row, a short prompt.
    const std::vector<std::int32_t> lengths = {530, 77, 5};
    const std::vector<std::int32_t> first = {0, 20, 21, 26};
    const int blocks = layout.pages_for(530);
    std::vector<std::int32_t> table(static_cast<std::size_t>(3 * blocks));
    std::iota(table.rbegin(), table.rend(), 0);
    Matrix pages = random_matrix(random, act(), 3 * blocks, layout.page());
    for (int s = 0; s < 3; ++s) {  // NaN behind each sequence's end
      for (int p = lengths[static_cast<std::size_t>(s)]; p < blocks * page; ++p) {
        const auto number = table[static_cast<std::size_t>(s * blocks + p / page)];
        for (int h = 0; h < kv_heads; ++h) {
          for (int i = 0; i < 2 * dim; ++i) pages.set(layout.offset(number, h, i >= dim, p % page) + i % dim, std::nanf(""));
        }
      }
    }
    const std::int32_t rows = 26;
    const std::int64_t width = std::int64_t{kv_heads} * group * dim;
    Matrix q = random_matrix(random, act(), rows, width);
    Matrix got(act(), rows, width);
    Matrix want(act(), rows, width);
    AttentionArgs args;
    args.q = View(q.view.data, act(), {rows, kv_heads * group, dim});
    args.sequences = {3, first.data(), lengths.data(), table.data(), blocks};
    args.kv = {pages.view.data, layout};
    args.scale = 0.2F;
    args.rows = {rows, &rows};
    args.out = View(got.view.data, act(), {rows, kv_heads * group, dim});
    ops->attention(args);
    args.out = View(want.view.data, act(), {rows, kv_heads * group, dim});
    reference->attention(args);
    expect_near(got, want, tolerance(act()), fmt::format("attention dim {}", dim));
  }
}

TEST_P(OpsTest, RoutesAreTheReferences) {
  Random random(4);
  Team team(2);
  const auto ops = make_cpu_ops(team, isa());
  for (const auto& [experts, k] : {std::pair{16, 4}, std::pair{7, 7}, std::pair{65, 1}}) {
    const std::int32_t rows = 20;
    const Matrix in = random_matrix(random, act(), rows, 33);
    const Matrix w = random_matrix(random, act(), experts, 33);
    const Packed ours(*ops, w);
    const Packed plain(*reference, w);
    Matrix ids(DType::kI32, rows, k);
    Matrix want_ids(DType::kI32, rows, k);
    Matrix weights(DType::kF32, rows, k);
    Matrix want(DType::kF32, rows, k);
    ops->route({in.view, ours.weight, true, ids.view, weights.view, {rows, &rows}});
    reference->route({in.view, plain.weight, true, want_ids.view, want.view, {rows, &rows}});
    EXPECT_EQ(std::memcmp(ids.view.data, want_ids.view.data, static_cast<std::size_t>(rows * k) * 4), 0);
    expect_near(weights, want, 1e-4, "route");
  }
}

TEST_P(OpsTest, SamplingFollowsTheDistribution) {
  Team team(2);
  const auto ops = make_cpu_ops(team, isa());
  Matrix logits(DType::kF32, 1, 8);
  const std::vector<float> p = {0.4F, 0.25F, 0.15F, 0.1F, 0.05F, 0.03F, 0.02F, 0.0F};
  for (int i = 0; i < 8; ++i) logits.set(i, i < 7 ? std::log(p[static_cast<std::size_t>(i)]) : 50.0F);  // the last is beyond the vocabulary
  const std::int32_t one = 1;
  constexpr int kDraws = 20000;
  for (const int top_k : {0, 3}) {
    std::vector<int> count(8);
    for (int draw = 0; draw < kDraws; ++draw) {
      const SampleRow row{.top_k = top_k, .seed = 5, .position = static_cast<std::uint32_t>(draw), .vocab = 7, .num_logprobs = 0};
      SampledToken token;
      ops->sample({logits.view, {&row, 1}, {&token, 1}, {1, &one}});
      ASSERT_TRUE(token.token >= 0 && token.token < (top_k > 0 ? top_k : 7));
      ASSERT_NEAR(token.logprob, std::log(p[static_cast<std::size_t>(token.token)]), 1e-5);
      ++count[static_cast<std::size_t>(token.token)];
    }
    const int kept = top_k > 0 ? top_k : 7;
    const float total = std::accumulate(p.begin(), p.begin() + kept, 0.0F);
    double chi = 0;
    for (int i = 0; i < kept; ++i) {
      const double expected = static_cast<double>(p[static_cast<std::size_t>(i)] / total) * kDraws;
      chi += std::pow(count[static_cast<std::size_t>(i)] - expected, 2) / expected;
    }
    EXPECT_LT(chi, 25.0);  // 6 degrees of freedom: 1 in 3,000
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, OpsTest, ::testing::Combine(::testing::ValuesIn(cpu_isas()), ::testing::Values(DType::kF32, DType::kBf16)),
                         [](const auto& which) {
                           return std::string(to_string(std::get<0>(which.param))) + "_" + std::string(to_string(std::get<1>(which.param)));
                         });

}  // namespace
}  // namespace qwell
