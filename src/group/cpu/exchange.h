#pragma once
// The exchanges of a CPU group, over Link. Data moves by loads of the rank that needs it: every rank maps every window.
//
// Why no buffer is overwritten while a peer still reads it, without any barrier but the signals themselves. "Signal passed" means that all
// ranks have written it (Link, invariant 1).
//
//  join has two signals. P: my partial sums are written. R: my owned rows are written, and thus my reads of all partial sums are done.
//   - partial: written again for the next join, after R of this one is passed: all owners have read it. One buffer is enough.
//   - joined[b]: written for join n between its P and its R; P of join n is passed only after every rank entered join n, and so gave up the
//     rows of join n - 2, which are those in the same buffer (JoinedRows is valid until the next but one join).
//
//  dispatch (signal D: my outbox is written) and combine (signal C: the sums of the rows that I received are written, and my reads of all
//  outboxes are done) alternate.
//   - outbox: written again in the next dispatch, after C is passed: all receivers have read it.
//   - sums: written again after D of the next dispatch is passed: every source has entered that dispatch and so left this combine, in which
//     it read its sums.
//   - received: read and written by its own rank only.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "group/cpu/link.h"

namespace qwell::group {

// The wishes of the steps, and which kind is in force: two steps lie between.
class Kinds {
 public:
  void collected(std::uint64_t step, std::uint32_t largest) { steps_[step % steps_.size()] = {step, largest}; }
  // 0 where step - 2 is not known.
  int in_force(std::uint64_t step) const;
  void clear() { steps_.fill({}); }

 private:
  struct Entry {
    std::optional<std::uint64_t> step;
    std::uint32_t largest = 0;
  };
  std::array<Entry, 4> steps_;
};

class Exchange {
 public:
  Exchange(Link& link, Ops& ops);

  void wish_kind(int kind);
  int agreed_kind() const { return kinds_.in_force(link_.step()); }
  void begin_step();
  void reincarnate();

  View partial(int rows) const;
  Result<JoinedRows> join(const JoinArgs& args);
  Result<DispatchedRows> dispatch(View rows, View ids, View weights, const Placement& placement);
  View expert_sums(int count) const;
  Result<void> combine(View out);
  const Member::Counters& counters();

 private:
  // Opens an exchange; a wrong call of this rank (`wrong` says what, if not empty) fails the step, and the peers learn why.
  Result<void> open(Signal signal, const std::string& wrong);
  // Posts and waits for all; collects the wishes with the first signal of a step.
  Result<std::span<const Message>> signal(Signal signal, std::span<const Message> to);
  // Fails the step: `what` of this rank and of `peer` must be equal and are not.
  Failure differs(Signal signal, int peer, std::string_view what, std::uint32_t expected, std::uint32_t seen);
  std::string wrong_join(const JoinArgs& args) const;
  std::string wrong_dispatch(View rows, View ids, const Placement& placement) const;

  void sum_owned(const JoinArgs& args, Range owned, const RankWindow& home, const RowBuffers& to);
  void send_rows(View rows, View ids, View weights, const Placement& placement);
  void receive_rows(std::span<const Message> sources, int k, const Placement& placement);

  Link& link_;
  Ops& ops_;
  const WindowLayout layout_;
  Kinds kinds_;
  std::uint32_t wish_ = 0;
  std::uint64_t joins_ = 0;  // of this incarnation
  ResidualNormArgs sum_args_;

  // Of the open dispatch.
  struct Segment {  // rows of one source
    int first = 0;
    int count = 0;
  };
  bool dispatched_ = false;
  int rows_ = 0;
  int received_ = 0;
  std::vector<std::uint16_t> visits_;  // per own row: bit r: it went to rank r
  std::array<int, kRanksMax> sent_{};  // own rows by destination
  std::array<Segment, kRanksMax> segments_{};
  std::vector<float> zeros_;

  Member::Counters counters_;
};

// out[i] = balanced tree of terms[0..count)[i] with i in [0, n); count a power of two up to kRanksMax; out overlaps no term.
void tree_sum(const float* const* terms, int count, std::int64_t n, float* out);

}  // namespace qwell::group
