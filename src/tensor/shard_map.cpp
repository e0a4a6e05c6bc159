#include "tensor/shard_map.h"

#include <algorithm>

#include "base/check.h"

namespace qwell {
namespace {

// Appends a run, joined to the last one where both sides go on.
void append(std::vector<CopyRun>& runs, const CopyRun& run) {
  if (!runs.empty()) {
    CopyRun& last = runs.back();
    if (last.src_block == run.src_block && last.dst_block == run.dst_block && last.src_offset + last.bytes == run.src_offset &&
        last.dst_offset + last.bytes == run.dst_offset) {
      last.bytes += run.bytes;
      return;
    }
  }
  runs.push_back(run);
}

}  // namespace

std::vector<CopyRun> copy_runs(const KvShard& src, const KvShard& dst, Range heads, int first, int count) {
  QWELL_CHECK(src.layout.dtype == dst.layout.dtype && src.layout.head_dim == dst.layout.head_dim, "{} to {}", src.layout.text(),
              dst.layout.text());
  QWELL_CHECK(src.layout.kv_heads == src.heads.count && dst.layout.kv_heads == dst.heads.count, "{} heads of {}, {} heads of {}",
              src.heads.count, src.layout.text(), dst.heads.count, dst.layout.text());
  const int head_first = std::max({src.heads.first, dst.heads.first, heads.first});
  const int head_end = std::min({src.heads.end(), dst.heads.end(), heads.end()});
  const std::int64_t unit = size_of(src.layout.dtype);
  std::vector<CopyRun> runs;
  for (int position = first; position < first + count;) {
    // Up to the next page border of either side.
    const int src_token = position % src.layout.page_tokens;
    const int dst_token = position % dst.layout.page_tokens;
    const int tokens = std::min({src.layout.page_tokens - src_token, dst.layout.page_tokens - dst_token, first + count - position});
    for (int head = head_first; head < head_end; ++head) {
      for (const bool value : {false, true}) {
        append(runs, {.src_block = position / src.layout.page_tokens,
                      .dst_block = position / dst.layout.page_tokens,
                      .src_offset = src.layout.offset(0, head - src.heads.first, value, src_token) * unit,
                      .dst_offset = dst.layout.offset(0, head - dst.heads.first, value, dst_token) * unit,
                      .bytes = std::int64_t{tokens} * src.layout.head_dim * unit});
      }
    }
    position += tokens;
  }
  return runs;
}

Range kv_heads_of(int kv_heads, int rank, int ranks) {
  if (ranks <= kv_heads) {
    QWELL_CHECK(kv_heads % ranks == 0, "{} KV heads over {} ranks", kv_heads, ranks);
    return {kv_heads / ranks * rank, kv_heads / ranks};
  }
  QWELL_CHECK(ranks % kv_heads == 0, "{} KV heads over {} ranks", kv_heads, ranks);
  return {rank / (ranks / kv_heads), 1};
}

}  // namespace qwell
