#pragma once
// From one sharding of keys and values to another: which contiguous runs of bytes go where. One function serves every pair of head ranges
// and page sizes, so the bytes moved are the bytes of the keys and values, no more.

#include <cstdint>
#include <vector>

#include "tensor/page_layout.h"
#include "tensor/placement.h"

namespace qwell {

// One side of a move: the global KV heads that it holds, in pages of `layout` (layout.kv_heads == heads.count).
struct KvShard {
  Range heads;
  PageLayout layout;
};

// A piece of one layer: from byte `src_offset` of the sequence's page number `src_block` (an index into its block table) to the other side.
struct CopyRun {
  std::int32_t src_block = 0;
  std::int32_t dst_block = 0;
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;
  std::int64_t bytes = 0;

  bool operator==(const CopyRun&) const = default;
};

// Runs for positions [first, first + count) of the heads that both sides hold and that `heads` names. The layouts must agree in dtype and
// head_dim. Runs ascend in the destination and are as long as both sides' layouts allow: with equal page sizes and whole pages, one run per
// head and page, or one per page where both hold the same heads.
// Only the positions named are moved.
std::vector<CopyRun> copy_runs(const KvShard& src, const KvShard& dst, Range heads, int first, int count);

// Which of the ranks that hold a head sends it: replicas share the work by session. `replicas` = ranks / kv_heads, at least 1.
inline int sending_replica(std::uint64_t session, int head, int replicas) {
  const std::uint64_t mixed = (session + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(head + 1)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<int>((mixed >> 33) % static_cast<std::uint64_t>(replicas));
}

// KV heads of rank `rank` of `ranks`: an equal share, or one head, replicated, where there are more ranks than heads.
Range kv_heads_of(int kv_heads, int rank, int ranks);

}  // namespace qwell
