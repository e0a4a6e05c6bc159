// dispatch and combine.
//
// A row and its routes are written once, to the outbox of its source; every receiver looks at the routes of all rows of all sources and
// copies those that visit it to its receive buffer, densely. So the number of rows that a source sends to a rank need not be agreed on
// before the rows are placed, and one signal is enough. (Where copies cross a link, the sources count first and write to the receivers'
// buffers; the receive buffer is the same.)

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "group/cpu/exchange.h"

namespace qwell::group {
namespace {

// Copies rows between dense or row-strided matrices of equal row size.
void copy_row(View to, std::int64_t to_row, View from, std::int64_t from_row) {
  std::memcpy(to.at_bytes(to_row * to.stride[0]), from.at_bytes(from_row * from.stride[0]),
              static_cast<std::size_t>(from.shape[1] * size_of(from.dtype)));
}

template <class T>
T* row_of(View v, std::int64_t row) {
  return v.as<T>() + row * v.stride[0];
}

// Columns that are summed at a time: small enough for the first cache, and a number that the compiler knows.
constexpr std::int64_t kBlock = 128;

// out = a + b, n at most kBlock; out overlaps neither.
void add(const float* a, const float* b, std::int64_t n, float* __restrict out) {
  if (n == kBlock) {
    for (std::int64_t i = 0; i < kBlock; ++i) out[i] = a[i] + b[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
  }
}

int columns_of(View v) { return v.rank == 2 ? static_cast<int>(v.shape[1]) : 0; }

// What all sources with rows must agree on. 0: no rows, any will do.
std::uint32_t detail_of(int k, const Placement& placement) {
  return static_cast<std::uint32_t>(k) | (static_cast<std::uint32_t>(placement.version) & 0xffff) << 16;
}

}  // namespace

void tree_sum(const float* const* terms, int count, std::int64_t n, float* out) {
  if (count == 1) {
    std::memcpy(out, terms[0], static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  float sums[2][kRanksMax / 2][kBlock];  // of the levels, in turn
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t width = std::min(kBlock, n - first);
    std::array<const float*, kRanksMax> in;
    for (int t = 0; t < count; ++t) in[static_cast<std::size_t>(t)] = terms[t] + first;
    int level = 0;
    for (int left = count / 2; left > 1; left /= 2) {
      for (std::size_t t = 0; t < static_cast<std::size_t>(left); ++t) {
        add(in[2 * t], in[2 * t + 1], width, sums[level][t]);
        in[t] = sums[level][t];
      }
      level ^= 1;
    }
    add(in[0], in[1], width, out + first);
  }
}

std::string Exchange::wrong_dispatch(View rows, View ids, const Placement& placement) const {
  const GroupShape& shape = link_.shape();
  if (!shape.distinct_rows) return "expected join, this group has replicated rows; seen dispatch";
  if (dispatched_) return "expected combine, seen a second dispatch";
  const std::int64_t count = rows.rank == 0 ? 0 : rows.shape[0];
  if (count > shape.rows_max) return fmt::format("expected at most {} rows (rows_max), seen {}", shape.rows_max, count);
  if (columns_of(ids) > shape.experts_per_token) {
    return fmt::format("expected at most {} experts per token, seen {}", shape.experts_per_token, columns_of(ids));
  }
  if (placement.num_ranks != shape.size) return fmt::format("expected a placement over {} ranks, seen {}", shape.size, placement.num_ranks);
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int32_t* route = row_of<std::int32_t>(ids, t);
    for (int j = 0; j < columns_of(ids); ++j) {
      if (route[j] < -1 || route[j] >= placement.num_experts) {
        return fmt::format("row {}: expected experts below {}, seen {}", t, placement.num_experts, route[j]);
      }
    }
  }
  return {};
}

Result<DispatchedRows> Exchange::dispatch(View rows, View ids, View weights, const Placement& placement) {
  const GroupShape& shape = link_.shape();
  if (auto opened = open(Signal::kDispatch, wrong_dispatch(rows, ids, placement)); !opened) return opened.failure();
  rows_ = rows.rank == 0 ? 0 : static_cast<int>(rows.shape[0]);
  int k = rows_ > 0 ? columns_of(ids) : 0;
  if (rows_ > 0) {
    QWELL_CHECK(rows.dtype == shape.act && columns_of(rows) == shape.hidden && ids.dtype == DType::kI32 && weights.dtype == DType::kF32 &&
                    columns_of(weights) == k && ids.shape[0] == rows_ && weights.shape[0] == rows_ && k > 0,
                "rows {} {}, ids {}, weights {}", to_string(rows.dtype), rows.shape_text(), ids.shape_text(), weights.shape_text());
  }
  send_rows(rows, ids, weights, placement);

  std::array<Message, kRanksMax> to;
  const std::uint32_t detail = rows_ > 0 ? detail_of(k, placement) : 0;
  to.fill({.rows = static_cast<std::uint32_t>(rows_), .detail = detail, .wish = wish_});
  auto sources = signal(Signal::kDispatch, std::span<const Message>(to).first(static_cast<std::size_t>(shape.size)));
  if (!sources) return sources.failure();
  for (int peer = 0; peer < shape.size; ++peer) {
    const Message& message = (*sources)[static_cast<std::size_t>(peer)];
    if (message.rows > static_cast<std::uint32_t>(shape.rows_max)) {
      return differs(Signal::kDispatch, peer, "rows_max", static_cast<std::uint32_t>(shape.rows_max), message.rows);
    }
    if (message.rows == 0) continue;
    if (k == 0) k = static_cast<int>(message.detail & 0xffff);
    if (message.detail != detail_of(k, placement)) {
      return differs(Signal::kDispatch, peer, "experts per token + 65536 * placement version", detail_of(k, placement), message.detail);
    }
  }
  if (k == 0) k = shape.experts_per_token;
  receive_rows(*sources, k, placement);
  dispatched_ = true;
  const RankWindow own = link_.window(link_.rank());
  return DispatchedRows{.rows = own.act_rows(layout_.received, received_),
                        .ids = own.ids(layout_.received, received_, k),
                        .weights = own.weights(layout_.received, received_, k),
                        .count = received_};
}

// Fills the outbox, and notes which ranks each row visits.
void Exchange::send_rows(View rows, View ids, View weights, const Placement& placement) {
  sent_.fill(0);
  if (rows_ == 0) return;
  const int k = columns_of(ids);
  const RankWindow own = link_.window(link_.rank());
  const View out_rows = own.act_rows(layout_.outbox, rows_);
  const View out_ids = own.ids(layout_.outbox, rows_, k);
  const View out_weights = own.weights(layout_.outbox, rows_, k);
  const auto self = static_cast<std::size_t>(link_.rank());
  const auto row_bytes = static_cast<std::uint64_t>(rows.shape[1] * size_of(rows.dtype) + 8 * k);
  for (int t = 0; t < rows_; ++t) {
    copy_row(out_rows, t, rows, t);
    copy_row(out_ids, t, ids, t);
    copy_row(out_weights, t, weights, t);
    unsigned visits = 0;
    const std::int32_t* route = row_of<std::int32_t>(ids, t);
    for (int j = 0; j < k; ++j) {
      if (route[j] >= 0) visits |= 1U << placement.rank_of(route[j]);
    }
    visits_[static_cast<std::size_t>(t)] = static_cast<std::uint16_t>(visits);
    for (int rank = 0; rank < link_.size(); ++rank) sent_[static_cast<std::size_t>(rank)] += static_cast<int>(visits >> rank & 1);
    const auto others = static_cast<std::uint64_t>(std::popcount(visits & ~(1U << self)));
    counters_.rows_sent += others;
    counters_.bytes_sent += others * row_bytes;
  }
}

// Takes the rows that visit this rank from all outboxes.
void Exchange::receive_rows(std::span<const Message> sources, int k, const Placement& placement) {
  const GroupShape& shape = link_.shape();
  const Range experts = placement.experts_of(link_.rank());
  int sources_rows = 0;
  for (const Message& source : sources) sources_rows += static_cast<int>(source.rows);
  const RankWindow own = link_.window(link_.rank());
  const View rows = own.act_rows(layout_.received, sources_rows);
  const View ids = own.ids(layout_.received, sources_rows, k);
  const View weights = own.weights(layout_.received, sources_rows, k);
  received_ = 0;
  for (int s = 0; s < shape.size; ++s) {
    const RankWindow from = link_.window(s);
    const int count = static_cast<int>(sources[static_cast<std::size_t>(s)].rows);
    const View from_rows = from.act_rows(layout_.outbox, count);
    const View from_ids = from.ids(layout_.outbox, count, k);
    const View from_weights = from.weights(layout_.outbox, count, k);
    const int first = received_;
    for (int t = 0; t < count; ++t) {
      const std::int32_t* route = row_of<std::int32_t>(from_ids, t);
      std::int32_t* kept = row_of<std::int32_t>(ids, received_);
      bool visits = false;
      for (int j = 0; j < k; ++j) {
        kept[j] = experts.contains(route[j]) ? route[j] : -1;
        visits |= kept[j] >= 0;
      }
      if (!visits) continue;
      copy_row(rows, received_, from_rows, t);
      copy_row(weights, received_, from_weights, t);
      ++received_;
    }
    segments_[static_cast<std::size_t>(s)] = {first, received_ - first};
  }
}

View Exchange::expert_sums(int count) const {
  QWELL_CHECK(dispatched_ && count == received_, "{}: sums of {} rows, dispatched were {}", link_.shape().name, count,
              dispatched_ ? received_ : 0);
  return link_.window(link_.rank()).sums(count);
}

Result<void> Exchange::combine(View out) {
  const GroupShape& shape = link_.shape();
  std::string wrong;
  if (!shape.distinct_rows) wrong = "expected join, this group has replicated rows; seen combine";
  if (shape.distinct_rows && !dispatched_) wrong = "expected dispatch, seen combine";
  if (auto opened = open(Signal::kCombine, wrong); !opened) return opened;
  dispatched_ = false;
  const int out_rows = out.rank == 0 ? 0 : static_cast<int>(out.shape[0]);
  QWELL_CHECK(out_rows == rows_ && (rows_ == 0 || (out.dtype == DType::kF32 && columns_of(out) == shape.hidden)),
              "out {}, dispatched {} rows", out.shape_text(), rows_);

  // Every source learns where its rows begin, and that both count the same.
  std::array<Message, kRanksMax> to;
  for (int s = 0; s < shape.size; ++s) {
    const Segment& segment = segments_[static_cast<std::size_t>(s)];
    to[static_cast<std::size_t>(s)] = {
        .rows = static_cast<std::uint32_t>(segment.count), .detail = static_cast<std::uint32_t>(segment.first), .wish = wish_};
    if (s != link_.rank()) counters_.bytes_sent += static_cast<std::uint64_t>(segment.count) * static_cast<std::uint64_t>(shape.hidden) * 4;
  }
  auto ranks = signal(Signal::kCombine, std::span<const Message>(to).first(static_cast<std::size_t>(shape.size)));
  if (!ranks) return ranks.failure();
  std::array<const float*, kRanksMax> next{};
  for (int r = 0; r < shape.size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const Message& message = (*ranks)[i];
    if (message.rows != static_cast<std::uint32_t>(sent_[i])) {
      return differs(Signal::kCombine, r, "the number of rows that came back", static_cast<std::uint32_t>(sent_[i]), message.rows);
    }
    next[i] = link_.window(r).sums(0).as<float>() + std::int64_t{message.detail} * shape.hidden;
  }
  std::array<const float*, kRanksMax> terms{};
  for (int t = 0; t < rows_; ++t) {
    for (int r = 0; r < shape.size; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const bool visited = (visits_[static_cast<std::size_t>(t)] >> r & 1) != 0;
      terms[i] = visited ? next[i] : zeros_.data();
      if (visited) next[i] += shape.hidden;
    }
    tree_sum(terms.data(), shape.size, shape.hidden, row_of<float>(out, t));
  }
  return {};
}

}  // namespace qwell::group
