// The shard map against a plain description: every element of every named position and head arrives, and no byte else is touched.

#include "tensor/shard_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"

namespace qwell {
namespace {

// One layer of one sequence, its pages in order.
struct Side {
  KvShard shard;
  std::vector<std::uint16_t> data;

  Side(Range heads, int page_tokens, int head_dim, int tokens)
      : shard{heads, {DType::kBf16, page_tokens, heads.count, head_dim}},
        data(static_cast<std::size_t>(shard.layout.pages_for(tokens) * shard.layout.page()), 0xffff) {}

  std::uint16_t& at(int position, int head, bool value, int d) {
    const PageLayout& l = shard.layout;
    return data[static_cast<std::size_t>(l.offset(position / l.page_tokens, head - shard.heads.first, value, position % l.page_tokens) +
                                         d)];
  }
};

void apply(const std::vector<CopyRun>& runs, const Side& src, Side& dst) {
  for (const CopyRun& run : runs) {
    const auto* from = reinterpret_cast<const std::byte*>(src.data.data()) + run.src_block * src.shard.layout.page_bytes() + run.src_offset;
    auto* to = reinterpret_cast<std::byte*>(dst.data.data()) + run.dst_block * dst.shard.layout.page_bytes() + run.dst_offset;
    std::memcpy(to, from, static_cast<std::size_t>(run.bytes));
  }
}

TEST(ShardMap, EveryPairOfShardingsAndPageSizes) {
  constexpr int kHeads = 8;
  constexpr int kDim = 4;
  Random random(7);
  for (const int src_ranks : {1, 2, 4, 8, 16}) {
    for (const int dst_ranks : {1, 2, 4, 8, 16}) {
      for (const int src_page : {16, 64, 128}) {
        for (const int dst_page : {16, 64, 128}) {
          const int tokens = random.range(1, 300);
          const int first = random.range(0, tokens - 1);
          const int count = random.range(0, tokens - first);
          std::int64_t moved = 0;
          for (int d = 0; d < dst_ranks; ++d) {
            Side dst(kv_heads_of(kHeads, d, dst_ranks), dst_page, kDim, tokens);
            for (int s = 0; s < src_ranks; ++s) {
              if (src_ranks > kHeads && s % (src_ranks / kHeads) != 0) continue;  // one replica sends
              Side src(kv_heads_of(kHeads, s, src_ranks), src_page, kDim, tokens);
              for (int p = 0; p < tokens; ++p) {
                for (int h = src.shard.heads.first; h < src.shard.heads.end(); ++h) {
                  for (int v = 0; v < 2; ++v) {
                    for (int i = 0; i < kDim; ++i)
                      src.at(p, h, v != 0, i) = static_cast<std::uint16_t>(((p * kHeads + h) * 2 + v) * kDim + i);
                  }
                }
              }
              const auto runs = copy_runs(src.shard, dst.shard, {0, kHeads}, first, count);
              for (const CopyRun& run : runs) moved += run.bytes;
              apply(runs, src, dst);
            }
            for (int p = 0; p < tokens; ++p) {
              const bool named = p >= first && p < first + count;
              for (int h = dst.shard.heads.first; h < dst.shard.heads.end(); ++h) {
                for (int v = 0; v < 2; ++v) {
                  for (int i = 0; i < kDim; ++i) {
                    const auto want = named ? static_cast<std::uint16_t>(((p * kHeads + h) * 2 + v) * kDim + i) : std::uint16_t{0xffff};
                    ASSERT_EQ(dst.at(p, h, v != 0, i), want) << p << " " << h;
                  }
                }
              }
            }
          }
          const int copies = dst_ranks > kHeads ? dst_ranks / kHeads : 1;
          EXPECT_EQ(moved, std::int64_t{count} * kHeads * 2 * kDim * 2 * copies);
        }
      }
    }
  }
}

TEST(ShardMap, WholePagesAreFewRuns) {
  const KvShard all{{0, 4}, {DType::kBf16, 16, 4, 64}};
  const KvShard half{{2, 2}, {DType::kBf16, 16, 2, 64}};
  EXPECT_EQ(copy_runs(all, all, {0, 4}, 0, 48).size(), 3U);   // one per page
  EXPECT_EQ(copy_runs(half, all, {0, 4}, 0, 48).size(), 3U);  // its two heads are neighbours on both sides
  EXPECT_EQ(copy_runs(all, all, {1, 1}, 0, 48).size(), 3U);
  EXPECT_TRUE(copy_runs(all, all, {0, 4}, 5, 0).empty());
}

TEST(ShardMap, ReplicasShareTheSending) {
  int first = 0;
  for (std::uint64_t session = 0; session < 1000; ++session) {
    const int replica = sending_replica(session, 3, 2);
    ASSERT_TRUE(replica == 0 || replica == 1);
    first += replica == 0 ? 1 : 0;
  }
  EXPECT_GT(first, 400);
  EXPECT_LT(first, 600);
}

}  // namespace
}  // namespace qwell
