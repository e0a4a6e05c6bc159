#include <gtest/gtest.h>

#include <algorithm>

#include "group/support/scenarios.h"

namespace qwell::testing {
namespace {

TEST(Join, ThreadsGiveTheBitsOfOneRank) {
  for (const int size : {1, 2, 4, 8, 16}) {
    for (const DType act : {DType::kBf16, DType::kF32}) {
      GroupShape shape = replicated_shape(size, size == 4 ? 3 : 37);
      shape.act = act;
      run_threads(shape, [&](Member& m) { return join_steps(m, {.seed = 100 + static_cast<std::uint64_t>(size), .steps = 12}); });
    }
  }
}

TEST(Join, ProcessesGiveTheBitsOfOneRank) {
  for (const int size : {2, 4}) {
    run_processes(replicated_shape(size), [](Member& m) { return join_steps(m, {.seed = 5, .steps = 12}); });
  }
}

TEST(Dispatch, ThreadsGiveTheBitsOfOneRank) {
  for (const int size : {1, 2, 4, 8, 16}) {
    for (const Routing routing : {Routing::kRandom, Routing::kOneExpert, Routing::kOneRank, Routing::kSparse}) {
      GroupShape shape = distinct_shape(size);
      shape.act = size % 4 == 0 ? DType::kF32 : DType::kBf16;
      run_threads(shape, [&](Member& m) {
        return dispatch_steps(m, {.seed = 200 + static_cast<std::uint64_t>(size), .steps = 6, .routing = routing});
      });
    }
  }
}

TEST(Dispatch, ProcessesGiveTheBitsOfOneRank) {
  for (const int size : {2, 4}) {
    run_processes(distinct_shape(size), [](Member& m) { return dispatch_steps(m, {.seed = 6, .steps = 12}); });
  }
}

TEST(Dispatch, TakesAndGivesStridedRows) {
  const GroupShape shape = distinct_shape(2);
  run_threads(shape, [&](Member& member) -> std::string {
    constexpr int kRows = 4;
    Matrix wide(DType::kBf16, kRows, shape.hidden + 8), ids(DType::kI32, kRows, 5), weights(DType::kF32, kRows, 5);
    Matrix out(DType::kF32, kRows, shape.hidden + 16);
    const auto narrow = [](View v, std::int64_t columns) {
      v.shape[1] = columns;
      return v;
    };
    fill(wide.view(), 1, static_cast<std::uint64_t>(member.rank()));
    for (int t = 0; t < kRows; ++t) {
      const std::int32_t routes[5] = {0, 9, -1, 77, 88};  // the last two lie beyond the row
      std::copy_n(routes, 5, ids.view()[t].as<std::int32_t>());
    }
    fill(out.view(), 2, 2);
    const float beyond = out.view()[0].as<float>()[shape.hidden];
    member.begin_step(1);
    auto got = member.dispatch(narrow(wide.view(), shape.hidden), narrow(ids.view(), 3), narrow(weights.view(), 3), Placement{16, 2, 0});
    if (!got) return got.failure().message;
    if (got->count != 2 * kRows) return fmt::format("{} rows", got->count);
    const View own = got->rows.rows(member.rank() * kRows, kRows);
    std::string wrong = compare_bits("own rows", own, narrow(wide.view(), shape.hidden));
    const View sums = member.expert_sums(got->count);
    fill(sums, 3, static_cast<std::uint64_t>(member.rank()));
    if (auto combined = member.combine(narrow(out.view(), shape.hidden)); !combined) return combined.failure().message;
    if (out.view()[0].as<float>()[shape.hidden] != beyond) return "wrote beyond the row";
    Matrix first(DType::kF32, 2 * kRows, shape.hidden), second(DType::kF32, 2 * kRows, shape.hidden);
    fill(first.view(), 3, 0);
    fill(second.view(), 3, 1);
    for (int t = 0; t < kRows && wrong.empty(); ++t) {
      const int at = member.rank() * kRows + t;
      for (int i = 0; i < shape.hidden; ++i) {
        const float wanted = first.view()[at].as<float>()[i] + second.view()[at].as<float>()[i];
        if (out.view()[t].as<float>()[i] != wanted) return fmt::format("row {} column {}", t, i);
      }
    }
    return wrong;
  });
}

TEST(Counters, CountWhatOtherRanksNeed) {
  const GroupShape distinct = distinct_shape(4);
  run_threads(distinct, [&](Member& member) -> std::string {
    Matrix x(DType::kBf16, 2, distinct.hidden), ids(DType::kI32, 2, 3), weights(DType::kF32, 2, 3), out(DType::kF32, 2, distinct.hidden);
    const std::int32_t routes[6] = {0, 1, 15, 4, 5, 6};  // of 4 experts a rank: ranks 0 and 3; rank 1
    std::copy_n(routes, 6, ids.view().as<std::int32_t>());
    member.begin_step(1);
    auto got = member.dispatch(x.view(), ids.view(), weights.view(), Placement{16, 4, 0});
    if (!got || !member.combine(out.view())) return "exchange failed";
    const auto& counters = member.counters();
    const std::uint64_t sent = member.rank() == 2 ? 3 : 2;                           // rows for other ranks
    const std::uint64_t returned = member.rank() == 2 ? 0 : 3;                       // one row of each other rank
    const std::uint64_t row = static_cast<std::uint64_t>(distinct.hidden) * 2 + 24;  // act, and three routes
    const std::uint64_t bytes = sent * row + returned * static_cast<std::uint64_t>(distinct.hidden) * 4;
    if (counters.exchanges != 2 || counters.rows_sent != sent || counters.bytes_sent != bytes) {
      return fmt::format("{} exchanges, {} rows, {} bytes; wanted 2, {}, {}", counters.exchanges, counters.rows_sent, counters.bytes_sent,
                         sent, bytes);
    }
    return counters.wait_seconds > 0 ? "" : "no waiting";
  });
  run_threads(replicated_shape(2), [](Member& member) -> std::string {
    member.begin_step(1);
    if (!plain_join(member, 5)) return "join failed";
    const std::uint64_t owned = member.rank() == 0 ? 2 : 3;
    const std::uint64_t wanted = owned * static_cast<std::uint64_t>(member.shape().hidden) * 2;
    return member.counters().bytes_sent == wanted ? "" : fmt::format("{} bytes, wanted {}", member.counters().bytes_sent, wanted);
  });
}

}  // namespace
}  // namespace qwell::testing
