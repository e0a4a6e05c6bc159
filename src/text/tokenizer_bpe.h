#pragma once
// Byte-pair merging: a piece of text starts as one token per byte; of all neighbours that have a merge, those with the lowest rank (the
// leftmost of equal ones) become one token, until none is left (Sennrich et al. 2016). Internal to the tokenizer.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace qwell {

class BytePairMerges {
 public:
  struct Merge {
    std::int32_t left, right, result;
  };
  static constexpr std::uint32_t kNoRank = 0xffffffffU;

  explicit BytePairMerges(std::size_t merges_max);
  // Merges are added in the order of their ranks, no more than announced.
  bool add(const Merge& merge);  // false: the pair has a merge already
  // The token of each byte.
  void set_byte_ids(const std::array<std::int32_t, 256>& ids) { byte_ids_ = ids; }

  // Appends the tokens of `piece` (less than 2^32 bytes). O(n log n) in its length; safe from many threads.
  void append_tokens(std::string_view piece, std::vector<std::int32_t>& out) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    std::uint32_t rank = kNoRank;
    std::int32_t result = -1;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t find(std::uint64_t pair) const;  // its slot, or the empty one where it belongs
  const Slot& slot_of(std::uint64_t pair) const { return slots_[find(pair)]; }
  void append_short(std::string_view piece, std::vector<std::int32_t>& out) const;
  void append_long(std::string_view piece, std::vector<std::int32_t>& out) const;

  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Slot> slots_;  // open addressing, linear probing, at most two thirds full; a power of two
  unsigned shift_ = 0;       // 64 - log2(slots_.size())
  std::uint32_t num_merges_ = 0;
  // Whether no merge uses the result of a later one, as in every table that was trained: then a merge gives rise to higher ranks only.
  bool in_order_ = true;
  std::vector<bool> used_;  // tokens that a merge so far uses
};

}  // namespace qwell
