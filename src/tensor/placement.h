#pragma once
// Who has which expert, and in which order sums over ranks are formed.

#include <bit>
#include <cstdint>

#include "base/check.h"

namespace qwell {

// A sum over ranks is a balanced binary tree over leaves; a leaf is a block of query heads (output projection) or of experts (MoE layer),
// so the result does not depend on how many ranks share the work. As many leaves as the largest power of two up to 16 that divides the
// number of units.
constexpr int kLeavesMax = 16;

inline int leaf_count(int units) {
  QWELL_CHECK(units > 0, "units {}", units);
  int leaves = 1;
  while (leaves < kLeavesMax && units % (2 * leaves) == 0) leaves *= 2;
  return leaves;
}

// A contiguous range of units and what it is made of.
struct Range {
  int first = 0;
  int count = 0;
  int end() const { return first + count; }
  bool contains(int i) const { return i >= first && i < end(); }
  bool operator==(const Range&) const = default;
};

// The share of rank `rank` of `ranks` (a power of two, at most `leaf_count(units)`): whole leaves, a subtree of the tree of sums.
inline Range share_of(int units, int rank, int ranks) {
  QWELL_CHECK(std::has_single_bit(static_cast<unsigned>(ranks)) && ranks <= leaf_count(units) && rank >= 0 && rank < ranks,
              "rank {} of {}, {} units in {} leaves", rank, ranks, units, leaf_count(units));
  return {units / ranks * rank, units / ranks};
}

// Expert e lives on one rank: contiguous blocks. The version changes when a later placement moves experts.
struct Placement {
  int num_experts = 0;
  int num_ranks = 1;
  int version = 0;

  Range experts_of(int rank) const { return share_of(num_experts, rank, num_ranks); }
  int rank_of(int expert) const { return expert / (num_experts / num_ranks); }
};

}  // namespace qwell
