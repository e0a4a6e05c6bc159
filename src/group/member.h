#pragma once
// A rank's end of a group: ranks that step together and exchange rows between two products of a layer (design: replicated rows in prefill,
// distinct rows in decode). Model code calls `join`, `dispatch` and `combine`; it cannot tell threads from processes, nor one rank from many.
//
// Rules for all exchanges
//  - All ranks of a group call the same exchanges in the same order within a step. Each exchange has a tag (incarnation, step, index); every
//    rank writes its cell to every peer, with zero rows too, and waits for all of them. A cell with an unexpected tag is a failure, not a wait.
//  - Every wait has a deadline. A wait that fails sets the step's abort word: every later wait of that step returns at once. The failure
//    names group, rank, step, exchange, what was awaited and what was there.
//  - A group of one rank exchanges nothing and never fails.
//  - Results are bit-equal on all ranks and for every number of ranks (sums are the trees of tensor/placement.h, fp32).
// One Member belongs to one rank's thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "ops/ops.h"
#include "tensor/placement.h"

namespace qwell {

// What the exchange windows are sized by: known from the model and the memory plan, equal on all ranks.
struct GroupShape {
  std::string name;  // for messages: "prefill group 0"
  int size = 1;      // ranks; a power of two
  int rows_max = 0;  // of a step: of the whole group (replicated rows), of each rank (distinct rows)
  int hidden = 0;
  int experts_per_token = 0;     // 0: a model without routes
  DType act = DType::kBf16;
  bool distinct_rows = false;    // decode (dispatch/combine) or prefill (join over ranks)
  std::size_t order_bytes_max = 1 << 20;  // of one step's order, see publish_order

  // Bytes of one rank's window, for the memory plan.
  std::size_t window_bytes() const;
};

// The memory that the ranks of a group share. Threads: anonymous memory of this process. Processes: POSIX shared memory, created by one and
// attached by name by the others. Holds two incarnations' cells; `reincarnate` makes a fresh, empty one for the survivors.
class GroupWindow {
 public:
  virtual ~GroupWindow() = default;
  virtual const GroupShape& shape() const = 0;
  virtual std::byte* rank_base(int rank) const = 0;
};

std::shared_ptr<GroupWindow> make_local_window(const GroupShape& shape);
// `name` like "/qwell-<pid>-<n>". The creator removes the name when it is destroyed. Attaching checks shape and version: Error names the
// field that differs.
std::shared_ptr<GroupWindow> create_shared_window(const GroupShape& shape, const std::string& name);
std::shared_ptr<GroupWindow> attach_shared_window(const GroupShape& shape, const std::string& name);

// Rows of T that `rank` owns in the replicated form: its part of the residual stream.
inline Range owned_rows(int rows, int rank, int ranks) {
  const int first = static_cast<int>(std::int64_t{rows} * rank / ranks);
  return {first, static_cast<int>(std::int64_t{rows} * (rank + 1) / ranks) - first};
}

struct RouterWeights {
  LinearWeight weight;  // [E, H]
  int experts_per_token = 0;
  bool renormalize = true;
};

// Sum over ranks, residual, norm, route; then every rank has every row.
struct JoinArgs {
  bool has_partial = true;  // false before the first layer: norm only
  View residual;            // fp32 [rows_max / size rounded up, H]: row i is row owned.first + i; updated in place
  NormWeight norm;
  const RouterWeights* router = nullptr;  // null: no routes wanted
  int rows = 0;                           // of the whole step, equal on all ranks
};

// What join leaves on every rank, valid until the next but one join.
struct JoinedRows {
  View rows;     // act [T, H]
  View ids;      // int32 [T, k], ascending in a row; empty without router
  View weights;  // fp32 [T, k]
};

// What dispatch leaves at a rank: the rows of all sources (own rows included) that have a route to one of its experts, by source then row.
struct DispatchedRows {
  View rows;     // act [R, H]
  View ids;      // int32 [R, k]: routes to other ranks' experts are -1, order kept
  View weights;  // fp32 [R, k]
  int count = 0;
};

class Member {
 public:
  // `ops` is the rank's own executor and outlives the member.
  Member(std::shared_ptr<GroupWindow> window, int rank, Ops& ops, Duration deadline);
  ~Member();

  int rank() const;
  int size() const;
  const GroupShape& shape() const;

  // ---- Steps.
  // The leader (rank 0) gives the other ranks the order of step `step`: bytes that only they and it understand. Returns at once; at most one
  // order is outstanding (it waits, with deadline, until all ranks have taken the previous one).
  Result<void> publish_order(std::uint64_t step, std::span<const std::byte> order);
  // Waits for the order of `step`. kDeadline after `patience` without one is normal for an idle group: ask again.
  Result<std::span<const std::byte>> await_order(std::uint64_t step, Duration patience);

  // Distinct rows, no leader: a rank with work announces the step before it runs it; an idle rank that sees it joins with zero rows.
  void announce(std::uint64_t step);
  // True if `step` is announced by any rank; waits at most `patience`, and returns false early when `wake` is called.
  bool await_announced(std::uint64_t step, Duration patience);
  // Ends a wait in await_announced or await_order of this rank's thread, from any thread of this process.
  void wake();

  // Opens step `step`: exchanges count from 0. Steps ascend; all ranks of the incarnation run every announced step.
  void begin_step(std::uint64_t step);
  // What the other ranks would like for step + 2, and the largest of all wishes of step - 2 (0 at the start): the number of draft passes.
  // Travels with the first exchange of the step.
  void wish_kind(int kind);
  int agreed_kind() const;

  // Sets the abort word of the running step: every wait of every rank in it returns a failure with `reason`. Any thread of the process.
  void abort(const std::string& reason);

  // After a failure, when the survivors (and a replacement for the dead rank) agreed on it: a fresh window state. Every rank calls it with
  // the same number, larger than the current one, before the next step.
  void reincarnate(std::uint32_t incarnation);
  std::uint32_t incarnation() const;

  // ---- Replicated rows.
  // Where this rank writes its partial sum before join: fp32 [rows, H] in the window. Two buffers alternate, so that a peer that still reads
  // the last one is not overtaken.
  View partial(int rows);
  Result<JoinedRows> join(const JoinArgs& args);

  // ---- Distinct rows. `rows` may be 0 and differ between ranks.
  Result<DispatchedRows> dispatch(View rows, View ids, View weights, const Placement& placement);
  // Where this rank writes the partial sums of the dispatched rows: fp32 [count, H] in the window.
  View expert_sums(int count);
  // Sends the partial sums back; then `out` fp32 [T, H] (T rows as dispatched) = tree sum over ranks, +0.0 for ranks a row did not visit.
  Result<void> combine(View out);

  struct Counters {
    std::uint64_t exchanges = 0;
    std::uint64_t rows_sent = 0;   // dispatched to other ranks, once per destination rank
    std::uint64_t bytes_sent = 0;  // to other ranks, all exchanges
    double wait_seconds = 0;
  };
  const Counters& counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qwell
