#pragma once
// A member's connection to the windows of its group: signals between all ranks, the abort word, orders and announcements. What is signalled
// is the exchanges' business (cpu/exchange.h).
//
// Invariants
//  1. A signal goes from every rank to every other, and ends when all have come: nobody passes signal n before all ranks have written it.
//     The number of signals of an incarnation is the same on all ranks that keep the rules.
//  2. A cell is written for signal n and again for signal n + 2. Its writer has then passed signal n + 1, so its reader had written signal
//     n + 1, which it did after reading this cell for signal n: two sets of cells suffice.
//  3. The abort word of an incarnation is set once and stays: after a failure the group needs `reincarnate`. The first reason stands.
//
// Threads: everything is called by the rank's thread, except abort() and wake() (any thread of the process).

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "group/cpu/tag.h"
#include "group/cpu/wait.h"
#include "group/cpu/window_layout.h"

namespace qwell::group {

// What a rank says to one peer with a signal.
struct Message {
  std::uint32_t rows = 0;
  std::uint32_t detail = 0;  // what else both must agree on, or an offset
  std::uint32_t wish = 0;    // of the kind of step + 2
};

class Link {
 public:
  Link(std::shared_ptr<GroupWindow> window, int rank, Duration deadline);

  const GroupShape& shape() const { return window_->shape(); }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint32_t incarnation() const { return incarnation_.load(); }
  RankWindow window(int rank) const { return {*window_, layout_, rank, incarnation()}; }

  void begin_step(std::uint64_t step);
  std::uint64_t step() const { return step_.load(std::memory_order_relaxed); }
  // Opens the next exchange of the step. A failure when the step was aborted or has too many.
  Result<void> begin_exchange(Signal first);
  int exchange() const { return exchange_; }

  // Writes signal `signal` of the open exchange to every peer; everything written to windows before is visible to who sees it.
  void post(Signal signal, std::span<const Message> to);
  // Waits for the signal that was posted last from every peer: their messages by rank, the own one included.
  Result<std::span<const Message>> await_all();

  // Ends the step with a failure of this rank's making: sets the abort word.
  Failure fail_step(FailureCode code, std::string message);
  void abort(const std::string& reason);
  void reincarnate(std::uint32_t incarnation);

  Result<void> publish_order(std::uint64_t step, std::span<const std::byte> order);
  Result<std::span<const std::byte>> await_order(std::uint64_t step, Duration patience);
  void announce(std::uint64_t step);
  bool await_announced(std::uint64_t step, Duration patience);
  void wake();

  // "prefill group 0: rank 2, step 7, exchange 3 (join, rows)"
  std::string where(Signal signal) const;
  double wait_seconds() const { return wait_seconds_; }

 private:
  std::uint64_t tag(Signal signal, std::uint64_t step, int exchange = 0) const;
  ControlBlock& control(int rank) const { return window(rank).control(); }
  bool aborted() const;
  // The failure of a wait that the abort word ended; `waited` says where.
  Failure aborted_failure(const std::string& waited) const;
  Failure await_failed(Signal signal, int peer, std::uint64_t expected, std::uint64_t seen, double waited_seconds);
  Result<void> await_taken(std::uint64_t step);

  const std::shared_ptr<GroupWindow> window_;
  const WindowLayout layout_;
  const int rank_;
  const int size_;
  const Duration deadline_;
  const WaitPolicy policy_;

  std::atomic<std::uint32_t> incarnation_{0};
  std::atomic<std::uint64_t> step_{0};  // read by abort()
  bool began_ = false;                  // a step of this incarnation
  int exchanges_ = 0;                   // opened in this step
  int exchange_ = 0;                    // the open one
  std::uint64_t signals_ = 0;           // posted in this incarnation
  Signal posted_ = Signal::kNone;
  std::array<Message, kRanksMax> sent_{}, received_{};

  std::optional<std::uint64_t> published_;  // the step of the leader's last order in this incarnation
  std::uint64_t orders_ = 0;
  std::atomic<bool> woken_{false};
  double wait_seconds_ = 0;
};

}  // namespace qwell::group
