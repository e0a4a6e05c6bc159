#include "group/support/scenarios.h"

#include <algorithm>
#include <numeric>

#include "base/bits.h"
#include "base/random.h"

namespace qwell::testing {
namespace {

constexpr int kRouterExperts = 12;

std::uint64_t stream_of(std::uint64_t step, int exchange, int rank) {
  return step * 1000 + static_cast<std::uint64_t>(exchange) * 20 + static_cast<std::uint64_t>(rank);
}

// The joins of one step on one rank, and the same on all rows without a group.
class JoinStep {
 public:
  JoinStep(Member& member, std::uint64_t seed, std::uint64_t step)
      : member_(member),
        shape_(member.shape()),
        seed_(seed),
        step_(step),
        random_(seed, step),
        rows_(random_.chance(0.2) ? 0 : random_.range(0, shape_.rows_max)),
        owned_(owned_rows(rows_, member.rank(), shape_.size)),
        residual_(DType::kF32, (shape_.rows_max + shape_.size - 1) / shape_.size, shape_.hidden),
        all_residual_(DType::kF32, rows_, shape_.hidden),
        norm_weight_(DType::kF32, 1, shape_.hidden),
        router_(static_cast<std::size_t>(ops_->packed_bytes(shape_.act, kRouterExperts, shape_.hidden))) {
    fill(all_residual_.view(), seed, step);
    for (int i = 0; i < owned_.count; ++i) {
      std::copy_n(all_residual_.view()[owned_.first + i].as<float>(), shape_.hidden, residual_.view()[i].as<float>());
    }
    fill(norm_weight_.view(), seed, 7);
    Matrix router(DType::kF32, kRouterExperts, shape_.hidden);
    fill(router.view(), seed, 8);
    ops_->pack(shape_.act, kRouterExperts, shape_.hidden, 0, router.view(), router_.data());
  }

  std::string run(int joins) {
    JoinedRows last;
    std::string wrong;
    Matrix kept(shape_.act, rows_, shape_.hidden);
    for (int e = 0; e < joins && wrong.empty(); ++e) {
      const bool has_partial = e > 0 || random_.chance(0.5);
      const bool routed = random_.chance(0.5);
      if (has_partial) fill(member_.partial(rows_), seed_, stream_of(step_, e, member_.rank()));
      const RouterWeights router{.weight = router_weight(), .experts_per_token = shape_.experts_per_token};
      auto joined = member_.join(
          {.has_partial = has_partial, .residual = residual_.view(), .norm = norm(), .router = routed ? &router : nullptr, .rows = rows_});
      if (!joined) return joined.failure().message;
      // What the join before left must still be there.
      if (e > 0) wrong = compare_bits("rows of the join before", last.rows, kept.view());
      if (wrong.empty()) wrong = check(*joined, has_partial, routed, e, kept);
      last = *joined;
    }
    return wrong.empty() ? wrong : fmt::format("step {}, {} rows: {}", step_, rows_, wrong);
  }

 private:
  NormWeight norm() { return {.weight = View(norm_weight_.view().data, DType::kF32, {shape_.hidden})}; }

  LinearWeight router_weight() const { return {router_.data(), shape_.act, kRouterExperts, shape_.hidden}; }

  // What the partial sums of all ranks make of all rows.
  void add_partials(int exchange) {
    std::vector<std::vector<float>> terms;
    for (int r = 0; r < shape_.size; ++r) {
      Matrix partial(DType::kF32, rows_, shape_.hidden);
      fill(partial.view(), seed_, stream_of(step_, exchange, r));
      const auto* first = partial.view().as<float>();
      terms.emplace_back(first, first + partial.view().elements());
    }
    while (terms.size() > 1) {
      std::vector<std::vector<float>> sums;
      for (std::size_t i = 0; i < terms.size(); i += 2) {
        sums.push_back(terms[i]);
        for (std::size_t j = 0; j < terms[i].size(); ++j) sums.back()[j] += terms[i + 1][j];
      }
      terms = std::move(sums);
    }
    for (std::size_t j = 0; j < terms[0].size(); ++j) all_residual_.view().as<float>()[j] += terms[0][j];
  }

  std::string check(const JoinedRows& joined, bool has_partial, bool routed, int e, Matrix& wanted_rows) {
    if (has_partial) add_partials(e);
    ops_->residual_norm(
        {.partials = {}, .residual = all_residual_.view(), .norm = norm(), .out = wanted_rows.view(), .rows = {rows_, &rows_}});
    std::string wrong = compare_bits("rows", joined.rows, wanted_rows.view());
    if (wrong.empty()) wrong = compare_bits("residual", residual_.rows(0, owned_.count), all_residual_.rows(owned_.first, owned_.count));
    if (!routed && wrong.empty() && !(joined.ids.empty() && joined.weights.empty())) wrong = "routes that nobody wanted";
    if (!routed || !wrong.empty()) return wrong;
    Matrix ids(DType::kI32, rows_, shape_.experts_per_token);
    Matrix weights(DType::kF32, rows_, shape_.experts_per_token);
    ops_->route(
        {.in = wanted_rows.view(), .weight = router_weight(), .ids = ids.view(), .weights = weights.view(), .rows = {rows_, &rows_}});
    wrong = compare_bits("ids", joined.ids, ids.view());
    return wrong.empty() ? compare_bits("weights", joined.weights, weights.view()) : wrong;
  }

  Member& member_;
  const GroupShape& shape_;
  const std::uint64_t seed_, step_;
  Random random_;
  const std::unique_ptr<Ops> ops_ = make_reference_ops();
  const std::int32_t rows_;
  const Range owned_;
  Matrix residual_, all_residual_, norm_weight_;
  std::vector<std::byte> router_;
};

// What one source dispatches in one exchange.
struct Source {
  int rows = 0;
  Matrix x, ids, weights;

  Source(const GroupShape& shape, const DispatchSteps& plan, std::uint64_t step, int exchange, int rank)
      : Source(shape, plan, Random(plan.seed, stream_of(step, exchange, rank)), stream_of(step, exchange, rank)) {}

 private:
  Source(const GroupShape& shape, const DispatchSteps& plan, Random random, std::uint64_t stream)
      : rows(random.chance(0.25) ? 0 : random.range(0, shape.rows_max)),
        x(shape.act, rows, shape.hidden),
        ids(DType::kI32, rows, shape.experts_per_token),
        weights(DType::kF32, rows, shape.experts_per_token) {
    fill(x.view(), plan.seed + 1, stream);
    fill(weights.view(), plan.seed + 2, stream);
    const int k = shape.experts_per_token;
    const int share = plan.experts / shape.size;
    const int chosen = static_cast<int>(random.below(static_cast<std::uint32_t>(shape.size)));
    for (int t = 0; t < rows; ++t) {
      std::vector<std::int32_t> pool(static_cast<std::size_t>(plan.routing == Routing::kOneRank ? share : plan.experts));
      std::iota(pool.begin(), pool.end(), plan.routing == Routing::kOneRank ? share * chosen : 0);
      auto* row = ids.view()[t].as<std::int32_t>();
      for (int j = 0; j < k; ++j) {
        const auto at = random.below(static_cast<std::uint32_t>(pool.size()));
        row[j] = pool[at];
        pool.erase(pool.begin() + at);
      }
      if (plan.routing == Routing::kOneExpert) std::fill_n(row, k, -1), row[0] = plan.experts - 1;
      if (plan.routing == Routing::kSparse && t % 3 == 0) std::fill_n(row, k, -1);
      std::sort(row, row + k);
    }
  }
};

// Plain experts: the tree over the leaves [first, first + count) of a row's weighted experts; an empty leaf is +0.0.
float leaf_tree(float x, const std::int32_t* ids, const float* weights, int k, int per_leaf, int first, int count) {
  if (count > 1) {
    return leaf_tree(x, ids, weights, k, per_leaf, first, count / 2) +
           leaf_tree(x, ids, weights, k, per_leaf, first + count / 2, count / 2);
  }
  float sum = 0.0F;
  for (int j = 0; j < k; ++j) {
    if (ids[j] >= 0 && ids[j] / per_leaf == first) sum += weights[j] * (x * (0.37F + static_cast<float>(ids[j])));
  }
  return sum;
}

void run_experts(View x, View ids, View weights, int experts, Range own, View out) {
  const int per_leaf = experts / leaf_count(experts);
  const int k = static_cast<int>(ids.shape[1]);
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      const float v = x.dtype == DType::kBf16 ? to_float(x[t].as<bf16>()[i]) : x[t].as<float>()[i];
      out[t].as<float>()[i] =
          leaf_tree(v, ids[t].as<std::int32_t>(), weights[t].as<float>(), k, per_leaf, own.first / per_leaf, own.count / per_leaf);
    }
  }
}

std::string check_received(Member& member, const DispatchedRows& got, std::vector<Source>& sources, const Placement& placement) {
  const GroupShape& shape = member.shape();
  const int k = shape.experts_per_token;
  const Range own = placement.experts_of(member.rank());
  const std::int64_t most = std::int64_t{shape.size} * shape.rows_max;
  Matrix x(shape.act, most, shape.hidden), ids(DType::kI32, most, k), weights(DType::kF32, most, k);
  int count = 0;
  for (Source& source : sources) {
    for (int t = 0; t < source.rows; ++t) {
      bool visits = false;
      for (int j = 0; j < k; ++j) {
        const std::int32_t e = source.ids.view()[t].as<std::int32_t>()[j];
        ids.view()[count].as<std::int32_t>()[j] = own.contains(e) ? e : -1;
        visits |= own.contains(e);
      }
      if (!visits) continue;
      std::copy_n(source.x.view()[t].at_bytes(0), shape.hidden * size_of(shape.act), x.view()[count].at_bytes(0));
      std::copy_n(source.weights.view()[t].as<float>(), k, weights.view()[count].as<float>());
      ++count;
    }
  }
  if (got.count != count) return fmt::format("{} rows received, wanted {}", got.count, count);
  std::string wrong = compare_bits("received rows", got.rows, x.rows(0, count));
  if (wrong.empty()) wrong = compare_bits("received ids", got.ids, ids.rows(0, count));
  if (wrong.empty()) wrong = compare_bits("received weights", got.weights, weights.rows(0, count));
  return wrong;
}

std::string dispatch_once(Member& member, const DispatchSteps& plan, std::uint64_t step, int exchange) {
  const GroupShape& shape = member.shape();
  const Placement placement{plan.experts, shape.size, 0};
  std::vector<Source> sources;
  for (int r = 0; r < shape.size; ++r) sources.emplace_back(shape, plan, step, exchange, r);
  Source& own = sources[static_cast<std::size_t>(member.rank())];
  auto got = member.dispatch(own.x.view(), own.ids.view(), own.weights.view(), placement);
  if (!got) return got.failure().message;
  std::string wrong = check_received(member, *got, sources, placement);
  if (!wrong.empty()) return wrong;
  run_experts(got->rows, got->ids, got->weights, plan.experts, placement.experts_of(member.rank()), member.expert_sums(got->count));
  Matrix out(DType::kF32, own.rows, shape.hidden), wanted(DType::kF32, own.rows, shape.hidden);
  if (auto combined = member.combine(out.view()); !combined) return combined.failure().message;
  run_experts(own.x.view(), own.ids.view(), own.weights.view(), plan.experts, {0, plan.experts}, wanted.view());
  return compare_bits("combined rows", out.view(), wanted.view());
}

}  // namespace

std::string join_steps(Member& member, const JoinSteps& plan) {
  for (int s = 0; s < plan.steps; ++s) {
    const std::uint64_t step = plan.first_step + static_cast<std::uint64_t>(s);
    member.begin_step(step);
    std::string wrong = JoinStep(member, plan.seed, step).run(1 + Random(plan.seed, step + 77).range(0, 4));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string dispatch_steps(Member& member, const DispatchSteps& plan) {
  for (int s = 0; s < plan.steps; ++s) {
    const std::uint64_t step = plan.first_step + static_cast<std::uint64_t>(s);
    member.begin_step(step);
    const int exchanges = Random(plan.seed, step + 77).range(1, 3);
    for (int e = 0; e < exchanges; ++e) {
      std::string wrong = dispatch_once(member, plan, step, e);
      if (!wrong.empty()) return fmt::format("step {}, dispatch {}: {}", step, e, wrong);
    }
  }
  return {};
}

Result<void> plain_join(Member& member, int rows) {
  const GroupShape& shape = member.shape();
  Matrix residual(DType::kF32, shape.rows_max + 1, shape.hidden);
  std::vector<float> weight(static_cast<std::size_t>(shape.hidden), 1.0F);
  auto joined = member.join({.has_partial = false,
                             .residual = residual.view(),
                             .norm = {.weight = View(weight.data(), DType::kF32, {shape.hidden})},
                             .rows = rows});
  if (!joined) return joined.failure();
  return {};
}

}  // namespace qwell::testing
