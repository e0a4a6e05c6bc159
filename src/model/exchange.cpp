#include "model/exchange.h"

#include <algorithm>

#include "base/check.h"

namespace qwell {
namespace {

View take(Arena& arena, DType dtype, std::int64_t rows, std::int64_t columns) {
  const auto bytes = static_cast<std::size_t>(rows * columns * size_of(dtype));
  return View(arena.take(bytes), dtype, {rows, columns});
}

std::size_t matrix_bytes(DType dtype, std::int64_t rows, std::int64_t columns) {
  return Arena::padded(static_cast<std::size_t>(rows * columns * size_of(dtype)));
}

// Routes of a dense MLP: every row to every block, weight 1.
class DenseRoutes {
 public:
  DenseRoutes(Arena& arena, int rows, int blocks)
      : ids_(take(arena, DType::kI32, rows, blocks)), weights_(take(arena, DType::kF32, rows, blocks)) {
    for (int r = 0; r < rows; ++r) {
      for (int b = 0; b < blocks; ++b) {
        ids_.as<std::int32_t>()[r * blocks + b] = b;
        weights_.as<float>()[r * blocks + b] = 1.0F;
      }
    }
  }
  static std::size_t bytes(int rows, int blocks) {
    return matrix_bytes(DType::kI32, rows, blocks) + matrix_bytes(DType::kF32, rows, blocks);
  }
  void add_to(JoinedRows& rows, int count) const {
    rows.ids = ids_.rows(0, count);
    rows.weights = weights_.rows(0, count);
  }

 private:
  View ids_, weights_;
};

int dense_blocks(const ModelConfig& config) {
  int blocks = 0;
  for (int l = 0; l < config.num_layers; ++l) {
    if (!mlp_routed(config, l)) blocks = std::max(blocks, mlp_blocks(config, l));
  }
  return blocks;
}

// The experts of a rank, applied to rows that may visit others too.
ExpertArgs expert_args(const MlpWeights& mlp, Range own) {
  const int experts = static_cast<int>(mlp.experts.size());
  ExpertArgs args;
  args.experts = std::span(mlp.experts).subspan(static_cast<std::size_t>(own.first), static_cast<std::size_t>(own.count));
  args.first = own.first;
  args.experts_per_leaf = experts / leaf_count(experts);
  return args;
}

class ReplicatedExchange final : public LayerExchange {
 public:
  ReplicatedExchange(const ModelWeights& weights, Member& member, Ops& ops, Arena& arena)
      : member_(member),
        ops_(ops),
        residual_(take(arena, DType::kF32, rows_owned_max(member.shape()), weights.config.hidden_size)),
        dense_(arena, member.shape().rows_max, dense_blocks(weights.config)) {}

  static int rows_owned_max(const GroupShape& shape) { return (shape.rows_max + shape.size - 1) / shape.size; }
  static std::size_t bytes(const ModelConfig& config, const GroupShape& shape) {
    return matrix_bytes(DType::kF32, rows_owned_max(shape), config.hidden_size) + DenseRoutes::bytes(shape.rows_max, dense_blocks(config));
  }

  void begin(int rows) override {
    rows_ = rows;
    count_ = rows;
  }
  Range owned() const override { return owned_rows(rows_, member_.rank(), member_.size()); }
  View residual() const override { return residual_; }

  Result<JoinedRows> start(const NormWeight& norm) override { return join(false, norm, nullptr); }
  View projection() override { return member_.partial(rows_); }
  Result<JoinedRows> after_attention(const NormWeight& norm, const MlpWeights& mlp) override {
    auto joined = join(true, norm, mlp.routed ? &mlp.router : nullptr);
    if (joined && !mlp.routed) dense_.add_to(*joined, rows_);
    return joined;
  }
  Result<JoinedRows> mlp(const JoinedRows& in, const MlpWeights& mlp, const NormWeight& next_norm) override {
    const int experts = static_cast<int>(mlp.experts.size());
    ExpertArgs args = expert_args(mlp, share_of(experts, member_.rank(), member_.size()));
    args.in = in.rows;
    args.ids = in.ids;
    args.weights = in.weights;
    args.out = member_.partial(rows_);
    args.rows = {rows_, &count_};
    ops_.experts(args);
    return join(true, next_norm, nullptr);
  }

 private:
  Result<JoinedRows> join(bool has_partial, const NormWeight& norm, const RouterWeights* router) {
    return member_.join({.has_partial = has_partial, .residual = residual_, .norm = norm, .router = router, .rows = rows_});
  }

  Member& member_;
  Ops& ops_;
  View residual_;
  DenseRoutes dense_;
  int rows_ = 0;
  std::int32_t count_ = 0;
};

class DistinctExchange final : public LayerExchange {
 public:
  DistinctExchange(const ModelWeights& weights, Member& member, Ops& ops, Arena& arena)
      : member_(member), ops_(ops), dense_(arena, member.shape().rows_max, dense_blocks(weights.config)) {
    const int rows = member.shape().rows_max;
    const int hidden = weights.config.hidden_size;
    residual_ = take(arena, DType::kF32, rows, hidden);
    sum_ = take(arena, DType::kF32, rows, hidden);
    normed_ = take(arena, weights.act, rows, hidden);
    ids_ = take(arena, DType::kI32, rows, member.shape().experts_per_token);
    route_weights_ = take(arena, DType::kF32, rows, member.shape().experts_per_token);
  }

  static std::size_t bytes(const ModelConfig& config, const GroupShape& shape) {
    const int hidden = config.hidden_size;
    return DenseRoutes::bytes(shape.rows_max, dense_blocks(config)) + 2 * matrix_bytes(DType::kF32, shape.rows_max, hidden) +
           matrix_bytes(shape.act, shape.rows_max, hidden) + matrix_bytes(DType::kI32, shape.rows_max, shape.experts_per_token) +
           matrix_bytes(DType::kF32, shape.rows_max, shape.experts_per_token);
  }

  void begin(int rows) override {
    rows_ = rows;
    count_ = rows;
  }
  Range owned() const override { return {0, rows_}; }
  View residual() const override { return residual_; }

  Result<JoinedRows> start(const NormWeight& norm) override { return finish(false, norm); }
  View projection() override { return sum_.rows(0, rows_); }
  Result<JoinedRows> after_attention(const NormWeight& norm, const MlpWeights& mlp) override {
    JoinedRows joined = finish(true, norm);
    if (mlp.routed) {
      joined.ids = View(ids_.data, DType::kI32, {rows_, mlp.experts_per_token});
      joined.weights = View(route_weights_.data, DType::kF32, {rows_, mlp.experts_per_token});
      ops_.route({.in = joined.rows,
                  .weight = mlp.router.weight,
                  .renormalize = mlp.router.renormalize,
                  .ids = joined.ids,
                  .weights = joined.weights,
                  .rows = {rows_, &count_}});
    } else {
      dense_.add_to(joined, rows_);
    }
    return joined;
  }
  Result<JoinedRows> mlp(const JoinedRows& in, const MlpWeights& mlp, const NormWeight& next_norm) override {
    const int experts = static_cast<int>(mlp.experts.size());
    ExpertArgs args = expert_args(mlp, share_of(experts, member_.rank(), member_.size()));
    if (member_.size() == 1) {
      args.in = in.rows;
      args.ids = in.ids;
      args.weights = in.weights;
      args.out = sum_.rows(0, rows_);
      args.rows = {rows_, &count_};
      ops_.experts(args);
      return finish(true, next_norm);
    }
    const auto received = member_.dispatch(in.rows, in.ids, in.weights, Placement{experts, member_.size(), 0});
    if (!received) return received.failure();
    const std::int32_t received_count = received->count;
    args.in = received->rows;
    args.ids = received->ids;
    args.weights = received->weights;
    args.out = member_.expert_sums(received->count);
    args.rows = {received->count, &received_count};
    ops_.experts(args);
    if (auto combined = member_.combine(sum_.rows(0, rows_)); !combined) return combined.failure();
    return finish(true, next_norm);
  }

 private:
  JoinedRows finish(bool has_sum, const NormWeight& norm) {
    ResidualNormArgs args{
        .partials = {}, .residual = residual_.rows(0, rows_), .norm = norm, .out = normed_.rows(0, rows_), .rows = {rows_, &count_}};
    if (has_sum) args.partials.push_back(sum_.rows(0, rows_));
    ops_.residual_norm(args);
    return {.rows = args.out, .ids = {}, .weights = {}};
  }

  Member& member_;
  Ops& ops_;
  DenseRoutes dense_;
  View residual_, sum_, normed_, ids_, route_weights_;
  int rows_ = 0;
  std::int32_t count_ = 0;
};

}  // namespace

std::size_t exchange_bytes(const ModelConfig& config, const GroupShape& shape) {
  return shape.distinct_rows ? DistinctExchange::bytes(config, shape) : ReplicatedExchange::bytes(config, shape);
}

std::unique_ptr<LayerExchange> make_exchange(const ModelWeights& weights, Member& member, Ops& ops, Arena& workspace) {
  if (member.shape().distinct_rows) return std::make_unique<DistinctExchange>(weights, member, ops, workspace);
  return std::make_unique<ReplicatedExchange>(weights, member, ops, workspace);
}

}  // namespace qwell
