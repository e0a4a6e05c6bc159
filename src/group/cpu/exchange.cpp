#include "group/cpu/exchange.h"

#include <algorithm>

#include "base/check.h"

namespace qwell::group {
namespace {

constexpr int kWishMax = 0xffff;

}  // namespace

int Kinds::in_force(std::uint64_t step) const {
  if (step < 2) return 0;
  const Entry& entry = steps_[(step - 2) % steps_.size()];
  return entry.step == step - 2 ? static_cast<int>(entry.largest) : 0;
}

Exchange::Exchange(Link& link, Ops& ops)
    : link_(link),
      ops_(ops),
      layout_(link.shape()),
      visits_(link.shape().distinct_rows ? static_cast<std::size_t>(link.shape().rows_max) : 0),
      zeros_(link.shape().distinct_rows ? static_cast<std::size_t>(link.shape().hidden) : 0) {}

void Exchange::wish_kind(int kind) {
  QWELL_CHECK(kind >= 0 && kind <= kWishMax, "kind {}", kind);
  wish_ = static_cast<std::uint32_t>(kind);
  if (link_.size() == 1) kinds_.collected(link_.step(), wish_);  // there may be no exchange to travel with
}

void Exchange::begin_step() {
  dispatched_ = false;
  if (link_.size() == 1) kinds_.collected(link_.step(), wish_);
}

void Exchange::reincarnate() {
  kinds_.clear();
  joins_ = 0;
  dispatched_ = false;
}

Result<void> Exchange::open(Signal signal, const std::string& wrong) {
  if (auto opened = link_.begin_exchange(signal); !opened) return opened;
  if (!wrong.empty()) return link_.fail_step(FailureCode::kInternal, fmt::format("{}: {}", link_.where(signal), wrong));
  ++counters_.exchanges;
  return {};
}

Result<std::span<const Message>> Exchange::signal(Signal signal, std::span<const Message> to) {
  link_.post(signal, to);
  auto messages = link_.await_all();
  if (messages && link_.exchange() == 0 && signal != Signal::kJoinRows) {
    std::uint32_t largest = 0;
    for (const Message& message : *messages) largest = std::max(largest, message.wish);
    kinds_.collected(link_.step(), largest);
  }
  return messages;
}

Failure Exchange::differs(Signal signal, int peer, std::string_view what, std::uint32_t expected, std::uint32_t seen) {
  return link_.fail_step(FailureCode::kInternal,
                         fmt::format("{}: {} of rank {} differs: expected {}, seen {}", link_.where(signal), what, peer, expected, seen));
}

const Member::Counters& Exchange::counters() {
  counters_.wait_seconds = link_.wait_seconds();
  return counters_;
}

// ---- Replicated rows.

View Exchange::partial(int rows) const {
  const GroupShape& shape = link_.shape();
  QWELL_CHECK(!shape.distinct_rows && rows >= 0 && rows <= shape.rows_max, "{}: partial of {} rows, at most {}{}", shape.name, rows,
              shape.rows_max, shape.distinct_rows ? "; the group has distinct rows" : "");
  return link_.window(link_.rank()).partial(rows);
}

std::string Exchange::wrong_join(const JoinArgs& args) const {
  const GroupShape& shape = link_.shape();
  if (shape.distinct_rows) return "expected dispatch or combine, this group has distinct rows; seen join";
  if (args.rows < 0 || args.rows > shape.rows_max)
    return fmt::format("expected at most {} rows (rows_max), seen {}", shape.rows_max, args.rows);
  if (args.router != nullptr && (args.router->experts_per_token < 1 || args.router->experts_per_token > shape.experts_per_token)) {
    return fmt::format("expected at most {} experts per token, seen {}", shape.experts_per_token, args.router->experts_per_token);
  }
  return {};
}

Result<JoinedRows> Exchange::join(const JoinArgs& args) {
  const GroupShape& shape = link_.shape();
  if (auto opened = open(Signal::kJoinPartials, wrong_join(args)); !opened) return opened.failure();
  const int k = args.router != nullptr ? args.router->experts_per_token : 0;
  const auto rows = static_cast<std::uint32_t>(args.rows);
  const auto detail = static_cast<std::uint32_t>(k << 1 | (args.has_partial ? 1 : 0));
  std::array<Message, kRanksMax> to;
  to.fill({.rows = rows, .detail = detail, .wish = wish_});
  const std::span<const Message> all = std::span<const Message>(to).first(static_cast<std::size_t>(shape.size));
  auto partials = signal(Signal::kJoinPartials, all);
  if (!partials) return partials.failure();
  for (int peer = 0; peer < shape.size; ++peer) {
    const Message& message = (*partials)[static_cast<std::size_t>(peer)];
    if (message.rows != rows) return differs(Signal::kJoinPartials, peer, "the number of rows", rows, message.rows);
    if (message.detail != detail) {
      return differs(Signal::kJoinPartials, peer, "what is joined (2 * experts per token + partial sums)", detail, message.detail);
    }
  }

  const RankWindow home = link_.window(kJoinHome);
  const RowBuffers& to_rows = layout_.joined[joins_++ & 1];
  const Range owned = owned_rows(args.rows, link_.rank(), shape.size);
  if (owned.count > 0) sum_owned(args, owned, home, to_rows);
  if (auto written = signal(Signal::kJoinRows, all); !written) return written.failure();

  const auto row_bytes = static_cast<std::uint64_t>(shape.hidden * size_of(shape.act) + 8 * k);
  const auto peers = static_cast<std::uint64_t>(shape.size - 1);
  counters_.bytes_sent += static_cast<std::uint64_t>(owned.count) * row_bytes * peers;
  if (args.has_partial)
    counters_.bytes_sent += static_cast<std::uint64_t>(args.rows - owned.count) * static_cast<std::uint64_t>(shape.hidden) * 4;
  JoinedRows joined{.rows = home.act_rows(to_rows, args.rows), .ids = {}, .weights = {}};
  if (k > 0) {
    joined.ids = home.ids(to_rows, args.rows, k);
    joined.weights = home.weights(to_rows, args.rows, k);
  }
  return joined;
}

void Exchange::sum_owned(const JoinArgs& args, Range owned, const RankWindow& home, const RowBuffers& to) {
  const Rows rows{owned.count, &owned.count};
  sum_args_.partials.clear();
  for (int rank = 0; args.has_partial && rank < link_.size(); ++rank) {
    sum_args_.partials.push_back(link_.window(rank).partial(args.rows).rows(owned.first, owned.count));
  }
  sum_args_.residual = args.residual.rows(0, owned.count);
  sum_args_.norm = args.norm;
  sum_args_.out = home.act_rows(to, args.rows).rows(owned.first, owned.count);
  sum_args_.rows = rows;
  ops_.residual_norm(sum_args_);
  if (args.router == nullptr) return;
  const int k = args.router->experts_per_token;
  ops_.route({.in = sum_args_.out,
              .weight = args.router->weight,
              .renormalize = args.router->renormalize,
              .ids = home.ids(to, args.rows, k).rows(owned.first, owned.count),
              .weights = home.weights(to, args.rows, k).rows(owned.first, owned.count),
              .rows = rows});
}

}  // namespace qwell::group
