#pragma once
// Sequences of steps whose every number follows from a seed, so that each rank knows what all the others have and checks what it gets
// against a computation of its own that knows no group.

#include "group/support/ranks.h"

namespace qwell::testing {

struct JoinSteps {
  std::uint64_t seed = 1;
  std::uint64_t first_step = 1;
  int steps = 4;
};
// Runs random joins: row counts from 0 to rows_max, with and without partial sums and routes.
std::string join_steps(Member& member, const JoinSteps& plan);

enum class Routing { kRandom, kOneExpert, kOneRank, kSparse };
struct DispatchSteps {
  std::uint64_t seed = 1;
  std::uint64_t first_step = 1;
  int steps = 4;
  Routing routing = Routing::kRandom;
  int experts = 48;
};
// Runs random dispatches and combines.
std::string dispatch_steps(Member& member, const DispatchSteps& plan);

// One join of `rows` rows without routes, which nobody checks: for tests of who meets whom.
Result<void> plain_join(Member& member, int rows);

}  // namespace qwell::testing
