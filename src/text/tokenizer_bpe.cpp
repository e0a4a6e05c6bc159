#include "text/tokenizer_bpe.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace qwell {
namespace {

// Up to here looking through all neighbours for each merge is faster than keeping a queue.
constexpr std::size_t kShortPiece = 96;

constexpr std::int32_t kGone = -1;

// Positions that wait for a merge, by its rank.
class PositionsByRank {
 public:
  using Positions = std::deque<std::uint32_t>;  // grows to millions without copying

  void add(std::uint32_t rank, std::uint32_t position) {
    if (last_ == nullptr || last_rank_ != rank) {
      last_rank_ = rank;
      last_ = &positions_[rank];
      if (last_->empty()) ranks_.push(rank);
    }
    last_->push_back(position);
  }
  bool empty() const { return ranks_.empty(); }
  std::uint32_t lowest() const { return ranks_.empty() ? BytePairMerges::kNoRank : ranks_.top(); }

  // The lowest rank with its positions in ascending order, which wait no more.
  std::pair<std::uint32_t, Positions> take_lowest() {
    const std::uint32_t rank = ranks_.top();
    ranks_.pop();
    const auto it = positions_.find(rank);
    Positions positions = std::move(it->second);
    positions_.erase(it);
    last_ = nullptr;
    if (!std::is_sorted(positions.begin(), positions.end())) std::sort(positions.begin(), positions.end());
    return {rank, std::move(positions)};
  }

 private:
  std::unordered_map<std::uint32_t, Positions> positions_;                                // never an empty list
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_;  // the keys of positions_
  Positions* last_ = nullptr;                                                             // the list of last_rank_
  std::uint32_t last_rank_ = 0;
};

}  // namespace

BytePairMerges::BytePairMerges(std::size_t merges_max) {
  const std::size_t size = std::bit_ceil(merges_max + merges_max / 2 + 2);
  slots_.resize(size);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
}

std::size_t BytePairMerges::find(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15U) >> shift_);
  while (slots_[i].pair != pair && slots_[i].pair != kEmpty) i = (i + 1) & mask;
  return i;
}

bool BytePairMerges::add(const Merge& merge) {
  QWELL_CHECK(num_merges_ + 1 + num_merges_ / 2 < slots_.size(), "{} merges in {} slots", num_merges_, slots_.size());
  const std::uint64_t pair = pair_of(merge.left, merge.right);
  Slot& slot = slots_[find(pair)];
  if (slot.pair == pair) return false;
  slot = {pair, num_merges_++, merge.result};
  const std::size_t largest = static_cast<std::size_t>(std::max({merge.left, merge.right, merge.result}));
  if (used_.size() <= largest) used_.resize(largest + 1);
  in_order_ = in_order_ && !used_[static_cast<std::size_t>(merge.result)];
  used_[static_cast<std::size_t>(merge.left)] = used_[static_cast<std::size_t>(merge.right)] = true;
  return true;
}

void BytePairMerges::append_tokens(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (piece.size() <= kShortPiece) {
    append_short(piece, out);
  } else {
    append_long(piece, out);
  }
}

void BytePairMerges::append_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::array<std::int32_t, kShortPiece> ids;
  std::array<std::uint32_t, kShortPiece> ranks;  // of the merge of ids[i] with ids[i + 1]
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = slot_of(pair_of(ids[i], ids[i + 1])).rank;
  while (n > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + n - 1) - ranks.begin());
    if (ranks[best] == kNoRank) break;
    ids[best] = slot_of(pair_of(ids[best], ids[best + 1])).result;
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    --n;
    if (best + 1 < n) {
      std::copy(ranks.begin() + best + 2, ranks.begin() + n, ranks.begin() + best + 1);
      ranks[best] = slot_of(pair_of(ids[best], ids[best + 1])).rank;
    }
    if (best > 0) ranks[best - 1] = slot_of(pair_of(ids[best - 1], ids[best])).rank;
  }
  out.insert(out.end(), ids.begin(), ids.begin() + n);
}

// Ranks from the lowest, of each rank the positions from the left: the same order as looking for the best pair again and again. Walking the
// positions of one rank in order keeps memory accesses sequential, so that a piece of megabytes takes linear time.
void BytePairMerges::append_long(std::string_view piece, std::vector<std::int32_t>& out) const {
  const auto n = static_cast<std::uint32_t>(piece.size());
  // A token is named by the index of its first byte. ids: the token, kGone for bytes that are not a token's first; bytes: its length, at
  // its first and at its last byte, so that both neighbours are found.
  std::vector<std::int32_t> ids(n);
  std::vector<std::uint32_t> bytes(n, 1);
  for (std::uint32_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  PositionsByRank waiting;
  const auto merge_at = [&](std::uint32_t i) -> const Slot* {  // of a token with the next one
    const std::uint32_t next = i + bytes[i];
    return ids[i] == kGone || next == n ? nullptr : &slot_of(pair_of(ids[i], ids[next]));
  };
  const auto look_up = [&](std::uint32_t i) {
    const Slot* merge = merge_at(i);
    if (merge != nullptr && merge->rank != kNoRank) waiting.add(merge->rank, i);
  };
  const auto look_up_previous = [&](std::uint32_t i) {
    if (i > 0) look_up(i - bytes[i - 1]);
  };
  for (std::uint32_t i = 0; i < n; ++i) look_up(i);
  while (!waiting.empty()) {
    auto [rank, positions] = waiting.take_lowest();
    std::size_t num_merged = 0;
    std::size_t k = 0;
    for (; k < positions.size() && waiting.lowest() > rank; ++k) {
      const std::uint32_t i = positions[k];
      const Slot* merge = merge_at(i);
      if (merge == nullptr || merge->rank != rank) continue;  // merged otherwise meanwhile
      const std::uint32_t next = i + bytes[i];
      const std::uint32_t length = bytes[i] + bytes[next];
      ids[i] = merge->result;
      ids[next] = kGone;
      bytes[i] = bytes[i + length - 1] = length;
      if (in_order_) {
        positions[num_merged++] = i;
      } else {
        look_up(i);
        look_up_previous(i);
      }
    }
    for (; k < positions.size(); ++k) waiting.add(rank, positions[k]);  // a lower rank has come up: only if not in_order_
    // In order, pairs with the new tokens have higher ranks, and it is enough to look once all are there.
    for (std::size_t m = 0; m < num_merged; ++m) {
      const std::uint32_t i = positions[m];
      if (m == 0 || positions[m - 1] + bytes[positions[m - 1]] != i) look_up_previous(i);
      look_up(i);
    }
  }
  for (std::uint32_t i = 0; i < n; i += bytes[i]) out.push_back(ids[i]);
}

}  // namespace qwell
