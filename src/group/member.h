#pragma once
// A rank's end of a group: ranks that step together and exchange rows between two products of a layer (design: replicated rows in prefill,
// distinct rows in decode). Model code calls `join`, `dispatch` and `combine`; it cannot tell threads from processes, nor one rank from
// many.
//
// Rules for all exchanges
//  - All ranks of a group call the same exchanges in the same order within a step. Each exchange has a tag (incarnation, step, index);
//  every
//    rank writes its cell to every peer, with zero rows too, and waits for all of them. A cell with an unexpected tag is a failure, not a
//    wait.
//  - Every wait has a deadline. A wait that fails sets the step's abort word: every later wait of that step returns at once. The failure
//    names group, rank, peer, step, exchange, what was expected and what was seen. Codes: kDeadline the peer did not come; kInternal a rank
//    broke a rule (another exchange, step or number of rows than the others; more than rows_max); kUnavailable another rank's failure, or
//    abort(), ended the step: the message quotes the reason.
//  - The abort word stays set until `reincarnate`: steps begun before it fail at once as well.
//  - A step has at most 4096 exchanges.
//  - A group of one rank exchanges nothing and never fails, but for wrong arguments.
//  - Results are bit-equal on all ranks and for every number of ranks (sums are the trees of tensor/placement.h, fp32).
// One Member belongs to one rank's thread; abort() and wake() may be called from any thread of the process. A member owns nothing in the
// window: it may be made anew, in this process or another, for a replacement of its rank (see reincarnate).

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
  int size = 1;      // ranks; a power of two, at most kLeavesMax
  int rows_max = 0;  // of a step: of the whole group (replicated rows), of each rank (distinct rows)
  int hidden = 0;
  int experts_per_token = 0;  // 0: a model without routes
  DType act = DType::kBf16;
  bool distinct_rows = false;             // decode (dispatch/combine) or prefill (join over ranks)
  std::size_t order_bytes_max = 1 << 20;  // of one step's order, see publish_order

  // Bytes of one rank's window, both incarnations included, for the memory plan. Shared memory is taken whole when it is created;
  // anonymous memory only where it is touched. Error names the field that no group can have.
  std::size_t window_bytes() const;
};

// The memory that the ranks of a group share. Threads: anonymous memory of this process. Processes: POSIX shared memory, created by one and
// attached by name by the others. Holds the cells and buffers of two incarnations, used in turn; cells carry their incarnation, so nothing
// needs to be cleared for a new one.
class GroupWindow {
 public:
  virtual ~GroupWindow() = default;
  virtual const GroupShape& shape() const = 0;
  // shape().window_bytes() bytes; zero at the beginning.
  virtual std::byte* rank_base(int rank) const = 0;
};

std::shared_ptr<GroupWindow> make_local_window(const GroupShape& shape);
// `name` like "/qwell-<pid>-<n>": "/" and up to 199 characters without another. The name must be free; the creator removes it when it is
// destroyed, in the process that made it (who has attached keeps the memory). Attaching checks shape and version: Error names the field
// that differs. The shape's `name` is for messages only and may differ.
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
  int rows = 0;                           // of the whole step, equal on all ranks, as are has_partial and experts per token
};

// What join leaves on every rank, read only, valid until the next but one join (of whichever step).
struct JoinedRows {
  View rows;     // act [T, H]
  View ids;      // int32 [T, k], ascending in a row; empty without router
  View weights;  // fp32 [T, k]
};

// What dispatch leaves at a rank: the rows of all sources (own rows included) that have a route to one of its experts, by source then row,
// dense. Valid until the next dispatch.
struct DispatchedRows {
  View rows;     // act [R, H]
  View ids;      // int32 [R, k]: routes to other ranks' experts are -1, order kept
  View weights;  // fp32 [R, k], as they were sent
  int count = 0;
};

class Member {
 public:
  // `ops` is the rank's own executor and outlives the member. `deadline` bounds each wait of an exchange. Error if there is no such rank.
  Member(std::shared_ptr<GroupWindow> window, int rank, Ops& ops, Duration deadline);
  ~Member();

  int rank() const;
  int size() const;
  const GroupShape& shape() const;

  // ---- Steps.
  // The leader (rank 0) gives the other ranks the order of step `step`: bytes that only they and it understand. Returns at once; at most
  // one order is outstanding (it waits, with deadline, until all ranks have taken the previous one: until their await_order returned it).
  // kTooLarge beyond order_bytes_max; a failure here leaves the group as it is.
  Result<void> publish_order(std::uint64_t step, std::span<const std::byte> order);
  // Waits for the order of `step`. kDeadline after `patience` without one, or after wake(), is normal for an idle group: ask again. The
  // bytes are valid until this rank's next await_order for a later step. kUnavailable when the incarnation was aborted.
  Result<std::span<const std::byte>> await_order(std::uint64_t step, Duration patience);

  // Distinct rows, no leader: a rank with work announces the step before it runs it; an idle rank that sees it joins with zero rows.
  void announce(std::uint64_t step);
  // True if `step`, or a later one, is announced by any rank, or if the incarnation was aborted (the step's first exchange then fails at
  // once and says why); waits at most `patience`, and returns false early when `wake` is called.
  bool await_announced(std::uint64_t step, Duration patience);
  // Ends a wait in await_announced or await_order of this rank's thread, from any thread of this process; without such a wait, the next
  // one.
  void wake();

  // Opens step `step`: exchanges count from 0. Steps ascend; all ranks of the incarnation run every announced step.
  void begin_step(std::uint64_t step);
  // What this rank would like for step + 2: the number of draft passes, in [0, 65535]. Stays until it is changed; the one set when the
  // step's first exchange begins travels with it.
  void wish_kind(int kind);
  // What is in force for the running step, equal on all ranks: the largest of all wishes of step - 2. 0 where the group did not run that
  // step in this incarnation.
  int agreed_kind() const;

  // Sets the abort word of the running step: every wait of every rank in it returns a failure with `reason` (cut at 2 KiB). The first
  // reason of an incarnation stands. Any thread of the process.
  void abort(const std::string& reason);

  // After a failure, when the survivors (and a replacement for the dead rank) agreed on it: a fresh window state. Every rank calls it with
  // the same number, larger than the current one (by less than 32768), before the next step. Incarnations start at 0; the window has memory
  // for two, chosen by the number's parity, so count by one: what a rank of the last incarnation still writes is then never seen, and its
  // memory is used again two incarnations later, by when it must have ended. Step numbers may start anew; wishes and announcements are
  // forgotten.
  void reincarnate(std::uint32_t incarnation);
  std::uint32_t incarnation() const;

  // ---- Replicated rows.
  // Where this rank writes its partial sum before join: fp32 [rows, H] in the window. All owners have read it when join returns.
  View partial(int rows);
  Result<JoinedRows> join(const JoinArgs& args);

  // ---- Distinct rows. `rows` may be 0 and differ between ranks. dispatch and combine alternate.
  // rows act [T, H], ids int32 [T, k] (-1: no route), weights fp32 [T, k]; k is at most experts_per_token and equal on all ranks with rows.
  Result<DispatchedRows> dispatch(View rows, View ids, View weights, const Placement& placement);
  // Where this rank writes the partial sums of the dispatched rows: fp32 [count, H] in the window.
  View expert_sums(int count);
  // Sends the partial sums back; then `out` fp32 [T, H] (T rows as dispatched) = tree sum over ranks, +0.0 for ranks a row did not visit.
  Result<void> combine(View out);

  // Of this member since it was made. For the rank's thread.
  struct Counters {
    std::uint64_t exchanges = 0;
    std::uint64_t rows_sent = 0;   // dispatched to other ranks, once per destination rank
    std::uint64_t bytes_sent = 0;  // rows, routes and sums for other ranks, once per rank that needs them, whoever moves them
    double wait_seconds = 0;
  };
  const Counters& counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qwell
