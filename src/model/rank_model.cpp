#include "model/rank_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/exchange.h"

namespace qwell {
namespace {

// Every address and size that a rank's buffers take, in one order, for the plan and for the placing.
struct WorkspaceShape {
  std::int64_t rows, head_rows, hidden, vocab, qkv_columns, q_columns;
  DType act;

  std::size_t bytes() const {
    const auto padded = [](std::int64_t elements, DType dtype) {
      return Arena::padded(static_cast<std::size_t>(elements * size_of(dtype)));
    };
    return padded(rows * qkv_columns, DType::kF32) + 2 * padded(rows * q_columns, act) + padded(head_rows * hidden, act) +
           padded(head_rows * vocab, DType::kF32);
  }
};

WorkspaceShape workspace_shape(const ModelConfig& c, DType act, Range q_heads, Range kv_heads, int rows_max, int head_rows_max) {
  return {.rows = rows_max,
          .head_rows = head_rows_max,
          .hidden = c.hidden_size,
          .vocab = c.vocab_size,
          .qkv_columns = std::int64_t{q_heads.count + 2 * kv_heads.count} * c.head_dim,
          .q_columns = std::int64_t{q_heads.count} * c.head_dim,
          .act = act};
}

Range q_heads_of(const ModelConfig& config, const GroupShape& shape, int rank) {
  return shape.distinct_rows ? Range{0, config.num_heads} : share_of(config.num_heads, rank, shape.size);
}

Range kv_heads_of_rank(const ModelConfig& config, const GroupShape& shape, int rank) {
  return shape.distinct_rows ? Range{0, config.num_kv_heads} : kv_heads_of(config.num_kv_heads, rank, shape.size);
}

LinearWeight rows_of(const LinearWeight& w, std::int64_t first, std::int64_t count, const Ops& ops) {
  LinearWeight part = w;
  part.data = static_cast<const std::byte*>(w.data) + ops.packed_bytes(w.dtype, first, w.k);
  part.n = count;
  return part;
}

}  // namespace

KvMemory::KvMemory(int num_layers, int num_pages, const PageLayout& layout, const std::string& what)
    : layout_(layout), num_pages_(num_pages), block_(bytes(num_layers, num_pages, layout), what, MemoryBlock::Touch::kNow) {}

PagedKv KvMemory::layer(int layer) const { return {block_.data() + bytes(layer, num_pages_, layout_), layout_}; }

RankModel::RankModel(const ModelWeights& weights, Member& member, Ops& ops, int rows_max, int head_rows_max)
    : weights_(weights),
      ops_(ops),
      rows_max_(rows_max),
      head_rows_max_(head_rows_max),
      q_heads_(q_heads_of(weights.config, member.shape(), member.rank())),
      kv_heads_(kv_heads_of_rank(weights.config, member.shape(), member.rank())),
      workspace_(workspace_bytes(weights.config, member.shape(), member.rank(), head_rows_max), "workspace of " + member.shape().name) {
  QWELL_CHECK(rows_max == member.shape().rows_max, "{} rows, the group has {}", rows_max, member.shape().rows_max);
  const WorkspaceShape shape = workspace_shape(weights.config, weights.act, q_heads_, kv_heads_, rows_max, head_rows_max);
  const auto take = [&](DType dtype, std::int64_t rows, std::int64_t columns) {
    return View(workspace_.take(static_cast<std::size_t>(rows * columns * size_of(dtype))), dtype, {rows, columns});
  };
  exchange_ = make_exchange(weights, member, ops, workspace_);
  qkv_ = take(DType::kF32, shape.rows, shape.qkv_columns);
  q_ = take(shape.act, shape.rows, shape.q_columns);
  attention_out_ = take(shape.act, shape.rows, shape.q_columns);
  head_in_ = take(shape.act, shape.head_rows, shape.hidden);
  logits_ = take(DType::kF32, shape.head_rows, shape.vocab);
}

RankModel::~RankModel() = default;

std::size_t RankModel::workspace_bytes(const ModelConfig& config, const GroupShape& shape, int rank, int head_rows_max) {
  const WorkspaceShape own = workspace_shape(config, shape.act, q_heads_of(config, shape, rank), kv_heads_of_rank(config, shape, rank),
                                             shape.rows_max, head_rows_max);
  return exchange_bytes(config, shape) + own.bytes();
}

PageLayout RankModel::page_layout(int page_tokens) const {
  return {.dtype = weights_.act, .page_tokens = page_tokens, .kv_heads = kv_heads_.count, .head_dim = weights_.config.head_dim};
}

Result<View> RankModel::forward(const ForwardStep& step) {
  QWELL_CHECK(step.rows >= 0 && step.rows <= rows_max_, "{} rows, at most {}", step.rows, rows_max_);
  exchange_->begin(step.rows);
  const Range owned = exchange_->owned();
  const std::int32_t owned_count = owned.count;
  count_ = step.rows;
  // The operations only read their inputs; a View has no const.
  auto* owned_tokens = const_cast<std::int32_t*>(step.tokens) + owned.first;
  ops_.embed({.tokens = View(owned_tokens, DType::kI32, {owned.count}),
              .table = weights_.embedding,
              .out = exchange_->residual(),
              .rows = {owned.count, &owned_count}});

  if (step.hooks != nullptr) step.hooks->layer_done(-1, exchange_->residual(), owned);

  auto rows = exchange_->start(weights_.layers.front().input_norm);
  if (!rows) return rows.failure();
  const int layers = static_cast<int>(weights_.layers.size());
  for (int l = 0; l < layers; ++l) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(l)];
    attention(l, *rows, step, exchange_->projection());
    rows = exchange_->after_attention(layer.post_attention_norm, layer.mlp);
    if (!rows) return rows.failure();
    const bool last = l + 1 == layers;
    rows = exchange_->mlp(*rows, layer.mlp, last ? weights_.final_norm : weights_.layers[static_cast<std::size_t>(l + 1)].input_norm);
    if (!rows) return rows.failure();
    if (step.hooks != nullptr) step.hooks->layer_done(l, exchange_->residual(), owned);
  }
  return rows->rows;
}

void RankModel::attention(int l, const JoinedRows& in, const ForwardStep& step, View out) {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(l)];
  const ModelConfig& c = weights_.config;
  const Rows rows{step.rows, &count_};
  const int d = c.head_dim;
  // The matrix has all heads; this rank's are three ranges of it, or the whole.
  struct Part {
    int first_row, count, column;
  };
  const std::array<Part, 3> parts = {
      Part{q_heads_.first * d, q_heads_.count * d, 0}, Part{(c.num_heads + kv_heads_.first) * d, kv_heads_.count * d, q_heads_.count * d},
      Part{(c.num_heads + c.num_kv_heads + kv_heads_.first) * d, kv_heads_.count * d, (q_heads_.count + kv_heads_.count) * d}};
  if (q_heads_.count == c.num_heads && kv_heads_.count == c.num_kv_heads) {
    ops_.linear({.in = in.rows, .weight = layer.qkv, .out = qkv_, .rows = rows});
  } else {
    for (const Part& part : parts) {
      View columns = qkv_;
      columns.data = qkv_.at_bytes(part.column);
      columns.shape[1] = part.count;
      ops_.linear({.in = in.rows, .weight = rows_of(layer.qkv, part.first_row, part.count, ops_), .out = columns, .rows = rows});
    }
  }

  const View q(q_.data, weights_.act, {rows_max_, q_heads_.count, d});
  ops_.qk_norm_rope({.qkv = qkv_,
                     .q_norm = layer.q_norm,
                     .k_norm = layer.k_norm,
                     .rope = weights_.rope,
                     .rotary_dim = weights_.rotary_dim,
                     .q_heads = q_heads_.count,
                     .gated = false,
                     .positions = View(const_cast<std::int32_t*>(step.positions), DType::kI32, {step.rows}),
                     .sequences = step.sequences,
                     .kv = step.kv->layer(l),
                     .q = q,
                     .gate = {},
                     .rows = rows});
  if (step.hooks != nullptr) step.hooks->keys_written(l);
  ops_.attention({.q = q,
                  .sequences = step.sequences,
                  .kv = step.kv->layer(l),
                  .scale = 1.0F / std::sqrt(static_cast<float>(d)),
                  .gate = {},
                  .out = View(attention_out_.data, weights_.act, {rows_max_, q_heads_.count, d}),
                  .rows = rows});

  const int leaves = static_cast<int>(layer.output_leaves.size());
  const int heads_per_leaf = c.num_heads / leaves;
  const auto first = layer.output_leaves.begin() + q_heads_.first / heads_per_leaf;
  ops_.linear_leaves({.in = attention_out_,
                      .leaves = std::vector<LinearWeight>(first, first + q_heads_.count / heads_per_leaf),
                      .out = out,
                      .rows = rows});
}

View RankModel::logits(View hidden, const std::int32_t* index, int count) {
  QWELL_CHECK(count >= 0 && count <= head_rows_max_, "{} rows of logits, at most {}", count, head_rows_max_);
  head_count_ = count;
  const Rows rows{count, &head_count_};
  ops_.gather({.in = hidden, .index = View(const_cast<std::int32_t*>(index), DType::kI32, {count}), .out = head_in_, .rows = rows});
  ops_.linear({.in = head_in_, .weight = weights_.head, .out = logits_, .rows = rows});
  return logits_.rows(0, count);
}

}  // namespace qwell
