#include "group/cpu/link.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"

namespace qwell::group {
namespace {

std::uint64_t abort_word(std::uint32_t incarnation, int rank) {
  return (std::uint64_t{incarnation} + 1) << 8 | static_cast<std::uint64_t>(rank);
}
bool names_incarnation(std::uint64_t word, std::uint32_t incarnation) { return word >> 8 == std::uint64_t{incarnation} + 1; }

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

Link::Link(std::shared_ptr<GroupWindow> window, int rank, Duration deadline)
    : window_(std::move(window)),
      layout_(window_->shape()),
      rank_(rank),
      size_(window_->shape().size),
      deadline_(deadline),
      policy_(WaitPolicy::choose(size_, cores())) {
  if (rank < 0 || rank >= size_) fail("{}: rank {}, wanted one of {}", shape().name, rank, size_);
}

std::uint64_t Link::tag(Signal signal, std::uint64_t step, int exchange) const {
  return Tag{.incarnation = static_cast<std::uint16_t>(incarnation()),
             .step = static_cast<std::uint32_t>(step),
             .exchange = static_cast<std::uint16_t>(exchange),
             .signal = signal}
      .pack();
}

std::string Link::where(Signal signal) const {
  return fmt::format("{}: rank {}, step {}, exchange {} ({})", shape().name, rank_, step(), exchange_, to_string(signal));
}

void Link::begin_step(std::uint64_t step) {
  QWELL_CHECK(!began_ || step > this->step(), "{}: rank {} begins step {} after step {}", shape().name, rank_, step, this->step());
  began_ = true;
  step_.store(step, std::memory_order_relaxed);
  exchanges_ = 0;
  exchange_ = 0;
}

Result<void> Link::begin_exchange(Signal first) {
  exchange_ = exchanges_;
  if (size_ == 1) return {};
  if (aborted()) return aborted_failure(where(first));
  if (static_cast<std::uint32_t>(exchanges_) == Tag::kExchangesMax) {
    exchange_ = exchanges_ - 1;
    return fail_step(FailureCode::kInternal, fmt::format("{}: a step has at most {} exchanges", where(first), Tag::kExchangesMax));
  }
  ++exchanges_;
  return {};
}

void Link::post(Signal signal, std::span<const Message> to) {
  std::copy(to.begin(), to.end(), sent_.begin());
  posted_ = signal;
  if (size_ == 1) return;
  const std::size_t set = signals_++ & 1;
  const std::uint64_t mark = tag(signal, step(), exchange_);
  for (int i = 1; i < size_; ++i) {  // each rank starts with its successor, so that not all write to the same one
    const int peer = (rank_ + i) % size_;
    const Message& message = to[static_cast<std::size_t>(peer)];
    ControlBlock& block = control(peer);
    write_cell(block.cells[set][rank_], mark, std::uint64_t{message.rows} << 32 | message.detail, message.wish);
    ring(block, rank_);
  }
}

Result<std::span<const Message>> Link::await_all() {
  const std::span<const Message> result = std::span<const Message>(received_).first(static_cast<std::size_t>(size_));
  received_[static_cast<std::size_t>(rank_)] = sent_[static_cast<std::size_t>(rank_)];
  if (size_ == 1) return result;
  const std::size_t set = (signals_ - 1) & 1;
  const std::uint64_t expected = tag(posted_, step(), exchange_);
  ControlBlock& own = control(rank_);
  const TimePoint began = Clock::now();
  const Deadline deadline = deadline_in(deadline_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Cell& cell = own.cells[set][peer];
    std::uint64_t seen = 0;
    bool stopped = false;
    wait_until(own, static_cast<std::uint32_t>(peer + 1), policy_, deadline, [&] {
      stopped = aborted();
      seen = load(cell.tag);
      return stopped || compare(seen, expected) != TagOrder::kOlder;
    });
    if (stopped || seen != expected) {
      const double waited = seconds(Clock::now() - began);
      wait_seconds_ += waited;
      if (stopped) return aborted_failure(fmt::format("{}: ended its wait for rank {}", where(posted_), peer));
      return await_failed(posted_, peer, expected, seen, waited);
    }
    const std::uint64_t value = std::atomic_ref(const_cast<std::uint64_t&>(cell.value)).load(std::memory_order_relaxed);
    const std::uint64_t extra = std::atomic_ref(const_cast<std::uint64_t&>(cell.extra)).load(std::memory_order_relaxed);
    received_[static_cast<std::size_t>(peer)] = {.rows = static_cast<std::uint32_t>(value >> 32),
                                                 .detail = static_cast<std::uint32_t>(value),
                                                 .wish = static_cast<std::uint32_t>(extra)};
  }
  wait_seconds_ += seconds(Clock::now() - began);
  return result;
}

Failure Link::await_failed(Signal signal, int peer, std::uint64_t expected, std::uint64_t seen, double waited_seconds) {
  if (compare(seen, expected) == TagOrder::kOlder) {
    return fail_step(FailureCode::kDeadline, fmt::format("{}: waited {:.3f} s for rank {}: expected {}, seen {}", where(signal),
                                                         waited_seconds, peer, tag_text(expected), tag_text(seen)));
  }
  return fail_step(FailureCode::kInternal,
                   fmt::format("{}: rank {} is elsewhere: expected {}, seen {}", where(signal), peer, tag_text(expected), tag_text(seen)));
}

bool Link::aborted() const { return size_ > 1 && names_incarnation(load(control(rank_).aborted), incarnation()); }

Failure Link::aborted_failure(const std::string& waited) const {
  const int origin = static_cast<int>(load(control(rank_).aborted) & 0xff) % size_;
  const ControlBlock& block = control(origin);
  const std::size_t bytes = std::min<std::size_t>(block.reason_bytes, ControlBlock::kReasonMax);
  return failure(FailureCode::kUnavailable, "{}: rank {} ended the step: {}", waited, origin, std::string_view(block.reason, bytes));
}

Failure Link::fail_step(FailureCode code, std::string message) {
  abort(message);
  return {code, std::move(message), {}};
}

void Link::abort(const std::string& reason) {
  if (size_ == 1) return;
  const std::uint32_t incarnation = this->incarnation();
  ControlBlock& own = control(rank_);
  // Of this rank's thread and the others of its process, one gives the reason.
  std::uint64_t claimed = load(own.reason_of);
  const std::uint64_t claim = std::uint64_t{incarnation} + 1;
  if (claimed == claim || !std::atomic_ref(own.reason_of).compare_exchange_strong(claimed, claim)) return;
  const std::size_t bytes = std::min(reason.size(), ControlBlock::kReasonMax);
  std::memcpy(own.reason, reason.data(), bytes);
  own.reason_bytes = static_cast<std::uint32_t>(bytes);
  for (int i = 0; i < size_; ++i) {
    ControlBlock& block = control((rank_ + i) % size_);
    std::uint64_t seen = load(block.aborted);
    while (!names_incarnation(seen, incarnation) &&
           !std::atomic_ref(block.aborted).compare_exchange_weak(seen, abort_word(incarnation, rank_))) {
    }
    ring_always(block);
  }
}

void Link::reincarnate(std::uint32_t incarnation) {
  QWELL_CHECK(incarnation > this->incarnation() && incarnation - this->incarnation() < (1U << 15), "{}: rank {}: incarnation {} after {}",
              shape().name, rank_, incarnation, this->incarnation());
  incarnation_.store(incarnation);  // in one order with the words that wake() and a waiter exchange
  began_ = false;
  exchanges_ = 0;
  exchange_ = 0;
  signals_ = 0;
  published_.reset();
  orders_ = 0;
}

}  // namespace qwell::group
