#pragma once
// Where everything lies in a rank's window: the one struct that sizes windows, finds buffers and is compared when a process attaches.
//
// A window is two halves of the same layout; incarnation i uses half i & 1, so that what a dead or late rank still writes under the last
// incarnation meets memory that nobody reads. All words and buffers start as zero and are never cleared: every word carries its
// incarnation (see tag.h).
//
// Replicated rows:  partial                the rank's partial sums; the owners of the rows read them
//                   joined[2]              act rows, ids and weights of the whole step, two that alternate. All ranks share the memory of
//                                          a CPU group, so a row is written once, to the window of rank kJoinHome, and read there by
//                                          all; on a device with its own memory every window's copy is in use.
// Distinct rows:    outbox                 the rank's own rows and routes, written once; each receiver takes those that visit it
//                   received               the receive buffer: the input of the expert product, by source then row
//                   sums                   fp32, one row per received row; the sources read theirs
// Both:             control                cells and words of the control block
//                   order[2]               orders of the leader (rank 0's window), two that alternate

#include <array>
#include <cstddef>
#include <cstdint>

#include "group/member.h"

namespace qwell::group {

constexpr int kRanksMax = kLeavesMax;
constexpr int kJoinHome = 0;
constexpr int kLeader = 0;
constexpr std::size_t kLine = 64;

// A tag and what comes with it; the tag is stored last. One writer and one reader each; a line of its own.
struct alignas(kLine) Cell {
  std::uint64_t tag;
  std::uint64_t value;
  std::uint64_t extra;
};

// Plain words, accessed through std::atomic_ref: the struct means the same in every process that maps it.
struct ControlBlock {
  static constexpr std::size_t kReasonMax = 2048;

  Cell cells[2][kRanksMax];  // [number of the signal & 1][rank that wrote it]
  Cell order;                // leader's window: value = bytes, extra = buffer
  Cell taken;                // the order that this rank took last
  Cell announced;            // the step that this rank announced last
  // Whom this rank's thread sleeps for: 0 nobody, it is awake; 1 + rank; or kSleepsForAny. The futex word.
  alignas(kLine) std::uint32_t sleeping;
  // (incarnation + 1) << 8 | rank whose reason stands. Read in every wait of this rank; set by any rank, once per incarnation.
  alignas(kLine) std::uint64_t aborted;
  // incarnation + 1 of the reason below, which this rank gave. Written before any `aborted` names it.
  alignas(kLine) std::uint64_t reason_of;
  std::uint32_t reason_bytes;
  char reason[kReasonMax];
};
constexpr std::uint32_t kSleepsForAny = 0xffff;

struct RowBuffers {
  std::size_t rows = 0, ids = 0, weights = 0;  // offsets
};

struct WindowLayout {
  explicit WindowLayout(const GroupShape& shape);

  // Offsets within a half.
  std::size_t partial = 0;
  std::array<RowBuffers, 2> joined;
  RowBuffers outbox, received;
  std::size_t sums = 0;
  std::array<std::size_t, 2> order{};

  std::size_t half_bytes = 0;  // whole pages
  std::size_t bytes() const { return 2 * half_bytes; }
};

// Error names the field of `shape` that no group can have.
void check_shape(const GroupShape& shape);

// One rank's window as one incarnation sees it.
class RankWindow {
 public:
  RankWindow(const GroupWindow& window, const WindowLayout& layout, int rank, std::uint32_t incarnation)
      : layout_(&layout), shape_(&window.shape()), base_(window.rank_base(rank) + (incarnation & 1) * layout.half_bytes) {}

  ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(base_); }
  View partial(int rows) const { return matrix(layout_->partial, DType::kF32, rows, shape_->hidden); }
  View sums(int rows) const { return matrix(layout_->sums, DType::kF32, rows, shape_->hidden); }
  View act_rows(const RowBuffers& at, int rows) const { return matrix(at.rows, shape_->act, rows, shape_->hidden); }
  View ids(const RowBuffers& at, int rows, int k) const { return matrix(at.ids, DType::kI32, rows, k); }
  View weights(const RowBuffers& at, int rows, int k) const { return matrix(at.weights, DType::kF32, rows, k); }
  std::byte* order(int buffer) const { return base_ + layout_->order[static_cast<std::size_t>(buffer)]; }

 private:
  View matrix(std::size_t at, DType dtype, int rows, int columns) const { return View(base_ + at, dtype, {rows, columns}); }

  const WindowLayout* layout_;
  const GroupShape* shape_;
  std::byte* base_;
};

}  // namespace qwell::group
