// What happens between steps: the leader's orders, and announcements where there is no leader.

#include <cstring>

#include "base/check.h"
#include "group/cpu/link.h"

namespace qwell::group {

// The order cell is written for the next order after all ranks have taken the last one, so nobody reads it meanwhile. The bytes lie in two
// buffers that alternate: order n + 2 is written after every rank took order n + 1, by which it gave up its view of order n.
Result<void> Link::publish_order(std::uint64_t step, std::span<const std::byte> order) {
  QWELL_CHECK(rank_ == kLeader, "{}: rank {} publishes an order, the leader is rank {}", shape().name, rank_, kLeader);
  if (order.size() > shape().order_bytes_max) {
    return failure(FailureCode::kTooLarge, "{}: the order of step {} has {} bytes, at most {} fit", shape().name, step, order.size(),
                   shape().order_bytes_max);
  }
  if (published_) {
    if (auto taken = await_taken(*published_); !taken) return taken;
  }
  const RankWindow own = window(rank_);
  const int buffer = static_cast<int>(orders_++ & 1);
  if (!order.empty()) std::memcpy(own.order(buffer), order.data(), order.size());
  write_cell(own.control().order, tag(Signal::kOrder, step), order.size(), static_cast<std::uint64_t>(buffer));
  published_ = step;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) ring(control(peer), rank_);
  }
  return {};
}

Result<void> Link::await_taken(std::uint64_t step) {
  const std::uint64_t expected = tag(Signal::kTaken, step);
  const Deadline deadline = deadline_in(deadline_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Cell& taken = control(peer).taken;
    std::uint64_t seen = 0;
    bool stopped = false;
    wait_until(control(rank_), static_cast<std::uint32_t>(peer + 1), policy_, deadline, [&] {
      stopped = aborted();
      seen = load(taken.tag);
      return stopped || compare(seen, expected) != TagOrder::kOlder;
    });
    const std::string who = fmt::format("{}: rank {}: the order of step {} is not taken by rank {}", shape().name, rank_, step, peer);
    if (stopped) return aborted_failure(who);
    if (seen != expected) {
      const bool late = compare(seen, expected) == TagOrder::kOlder;
      return failure(late ? FailureCode::kDeadline : FailureCode::kInternal, "{}: expected {}, seen {}", who, tag_text(expected),
                     tag_text(seen));
    }
  }
  return {};
}

Result<std::span<const std::byte>> Link::await_order(std::uint64_t step, Duration patience) {
  const std::uint64_t expected = tag(Signal::kOrder, step);
  const RankWindow leader = window(kLeader);
  const Cell& cell = leader.control().order;
  std::uint64_t seen = 0;
  bool stopped = false;
  bool woken = false;
  wait_until(control(rank_), kSleepsForAny, policy_, deadline_in(patience), [&] {
    stopped = aborted();
    seen = load(cell.tag);
    return stopped || compare(seen, expected) != TagOrder::kOlder || (woken = woken_.exchange(false));
  });
  const std::string who = fmt::format("{}: rank {}: no order of step {} from rank {}", shape().name, rank_, step, kLeader);
  if (stopped) return aborted_failure(who);
  const TagOrder order = compare(seen, expected);
  if (order == TagOrder::kOlder) {
    return failure(FailureCode::kDeadline, "{}{}: seen {}", who, woken ? ", woken" : "", tag_text(seen));
  }
  if (order == TagOrder::kOther) {
    return fail_step(FailureCode::kInternal, fmt::format("{}: expected {}, seen {}", who, tag_text(expected), tag_text(seen)));
  }
  const std::uint64_t bytes = std::atomic_ref(const_cast<std::uint64_t&>(cell.value)).load(std::memory_order_relaxed);
  const std::uint64_t buffer = std::atomic_ref(const_cast<std::uint64_t&>(cell.extra)).load(std::memory_order_relaxed);
  QWELL_CHECK(bytes <= shape().order_bytes_max && buffer < 2, "order of {} bytes in buffer {}", bytes, buffer);
  if (rank_ != kLeader) {
    write_cell(control(rank_).taken, tag(Signal::kTaken, step), 0, 0);
    ring(control(kLeader), rank_);
  }
  return std::span<const std::byte>(leader.order(static_cast<int>(buffer)), bytes);
}

void Link::announce(std::uint64_t step) {
  write_cell(control(rank_).announced, tag(Signal::kAnnounced, step), 0, 0);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) ring(control(peer), rank_);
  }
}

bool Link::await_announced(std::uint64_t step, Duration patience) {
  const std::uint64_t wanted = tag(Signal::kAnnounced, step);
  bool announced = false;
  wait_until(control(rank_), kSleepsForAny, policy_, deadline_in(patience), [&] {
    announced = aborted();
    for (int peer = 0; peer < size_ && !announced; ++peer) announced = step_reached(load(control(peer).announced.tag), wanted);
    return announced || woken_.exchange(false);
  });
  return announced;
}

void Link::wake() {
  woken_.store(true);
  ring_always(control(rank_));
}

}  // namespace qwell::group
