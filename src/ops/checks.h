#pragma once
// What the operations ask of their arguments, for all backends on the host. A violated one is a bug of the caller. Each returns the number
// of rows to work on; with zero rows nothing else is looked at (an idle rank has empty views).

#include "ops/ops.h"

namespace qwell {

int checked_rows(const EmbedArgs& args);
int checked_rows(const NormArgs& args);
int checked_rows(const ResidualNormArgs& args);
int checked_rows(const LinearArgs& args);
int checked_rows(const LinearLeavesArgs& args);
int checked_rows(const QkNormRopeArgs& args);
int checked_rows(const AttentionArgs& args);
int checked_rows(const RouteArgs& args);
int checked_rows(const ExpertArgs& args);
int checked_rows(const GatherArgs& args);
int checked_rows(const SampleArgs& args);
int checked_rows(const TokenLogprobArgs& args);
void check_pack(DType compute, std::int64_t n, std::int64_t k, std::int64_t row_first, const View& src);

// The sequence and the position of a row.
struct RowPlace {
  int sequence = 0;
  int position = 0;
};
// Places of all rows, in order. `fn(row, place)`.
template <class Fn>
void for_each_row(const SequenceRows& sequences, Fn&& fn) {
  for (int s = 0; s < sequences.count; ++s) {
    const int first = sequences.first_row[s];
    const int count = sequences.first_row[s + 1] - first;
    for (int i = 0; i < count; ++i) fn(first + i, RowPlace{s, sequences.kv_length[s] - count + i});
  }
}

// Element offset of a token's key or value in the pages of its sequence.
inline std::int64_t kv_offset(const SequenceRows& sequences, const PageLayout& layout, int sequence, int kv_head, bool value,
                              int position) {
  const std::int32_t* table = sequences.block_table + std::int64_t{sequence} * sequences.blocks_max;
  return layout.offset(table[position / layout.page_tokens], kv_head, value, position % layout.page_tokens);
}

}  // namespace qwell
