// Ranks that are late, absent, dead or elsewhere, and what the others see of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <barrier>
#include <thread>

#include "group/support/scenarios.h"

namespace qwell::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Neither success nor more than a moment: what a wait after a failure must be.
std::string fails_at_once(Member& member, const std::string& reason) {
  const TimePoint began = Clock::now();
  const auto joined = plain_join(member, 2);
  if (joined) return "a join after the failure succeeded";
  if (joined.failure().code != FailureCode::kUnavailable) return fmt::format("another code: {}", joined.failure().message);
  if (joined.failure().message.find(reason) == std::string::npos)
    return fmt::format("without \"{}\": {}", reason, joined.failure().message);
  if (Clock::now() - began > kDeadline / 4) return "not at once";
  return {};
}

TEST(Failure, ALateRankIsWaitedFor) {
  const auto window = make_local_window(replicated_shape(4));
  TestRank late(window, 3);
  std::atomic<int> joined{0};
  std::thread others([&] {
    const auto results = on_threads(3, [&](int r) {
      TestRank rank(window, r);
      rank.member.begin_step(1);
      auto done = plain_join(rank.member, 5);
      ++joined;
      return done ? std::string() : done.failure().message;
    });
    for (const auto& text : results) EXPECT_EQ(text, "");
  });
  EXPECT_FALSE(late.member.await_announced(1, kShort));  // lets time pass
  EXPECT_EQ(joined, 0);
  late.member.begin_step(1);
  EXPECT_TRUE(plain_join(late.member, 5));
  others.join();
}

TEST(Failure, ARankThatNeverComesIsNamed) {
  const auto window = make_local_window(replicated_shape(4));
  const auto results = on_threads(3, [&](int r) -> std::string {
    TestRank rank(window, r, r == 1 ? 4 * kShort : kDeadline);  // rank 1 gives up first, the others by its word
    rank.member.begin_step(4182);
    const TimePoint began = Clock::now();
    const auto joined = plain_join(rank.member, 5);
    if (joined) return "joined without rank 3";
    if (Clock::now() - began > kDeadline / 2) return "waited for the own deadline";
    const std::string text = joined.failure().message;
    if (r == 1 && joined.failure().code != FailureCode::kDeadline) return "another code: " + text;
    if (r != 1 && joined.failure().code != FailureCode::kUnavailable) return "another code: " + text;
    const std::string wrong = fails_at_once(rank.member, "for rank 3");
    return wrong.empty() ? text : "later: " + wrong;
  });
  EXPECT_THAT(results[1],
              AllOf(HasSubstr("prefill group 3: rank 1, step 4182, exchange 0 (join, partial sums): waited 0.4"),
                    HasSubstr("s for rank 3: expected join, partial sums (incarnation 0, step 4182, exchange 0), seen nothing yet")));
  EXPECT_THAT(results[0],
              AllOf(HasSubstr("rank 0, step 4182, exchange 0"), HasSubstr("rank 1 ended the step"), HasSubstr("for rank 3: expected")));
  // The late rank comes after all, and learns what happened.
  TestRank late(window, 3);
  EXPECT_TRUE(late.member.await_announced(4182, kDeadline));
  late.member.begin_step(4182);
  EXPECT_EQ(fails_at_once(late.member, "rank 1, step 4182"), "");
  late.member.begin_step(4183);
  EXPECT_EQ(fails_at_once(late.member, "rank 1, step 4182"), "");
  const auto order = late.member.await_order(1, kDeadline);
  ASSERT_FALSE(order);
  EXPECT_EQ(order.failure().code, FailureCode::kUnavailable);
}

// Two ranks, each with its own idea of what comes next; both must fail at once, and both texts say what was expected.
void expect_disagreement(const GroupShape& shape, const std::function<Result<void>(Member&)>& first,
                         const std::function<Result<void>(Member&)>& second, const std::string& expected, const std::string& seen) {
  const auto window = make_local_window(shape);
  const TimePoint began = Clock::now();
  const auto results = on_threads(2, [&](int r) -> std::string {
    TestRank rank(window, r);
    rank.member.begin_step(6);
    const auto done = r == 0 ? first(rank.member) : second(rank.member);
    return done ? "succeeded" : done.failure().message;
  });
  EXPECT_LT(Clock::now() - began, kDeadline / 2);
  EXPECT_THAT(results[0] + results[1], AllOf(HasSubstr(expected), HasSubstr(seen)));
  for (const auto& text : results)
    EXPECT_THAT(text, AllOf(HasSubstr(shape.name), HasSubstr("rank 1"), HasSubstr("step 6"), HasSubstr("exchange 0")));
  EXPECT_THAT(results[0], HasSubstr("rank 0"));
}

Result<void> empty_dispatch(Member& member) {
  auto got = member.dispatch({}, {}, {}, Placement{16, member.size(), 0});
  if (!got) return got.failure();
  return {};
}

TEST(Failure, WrongExchange) {
  const auto join = [](Member& m) { return plain_join(m, 3); };
  expect_disagreement(replicated_shape(2), join, empty_dispatch, "expected join", "seen dispatch");
  expect_disagreement(distinct_shape(2), empty_dispatch, join, "expected dispatch", "seen join");
  expect_disagreement(
      distinct_shape(2), empty_dispatch, [](Member& m) { return m.combine({}); }, "expected dispatch", "seen combine");
}

TEST(Failure, WrongRows) {
  const auto join = [](int rows) { return [rows](Member& m) { return plain_join(m, rows); }; };
  // Both see it; the text is of the one that saw it first, or of both.
  expect_disagreement(replicated_shape(2), join(3), join(4), "the number of rows of rank", "differs: expected");
  expect_disagreement(replicated_shape(2, 10), join(10), join(11), "expected at most 10 rows (rows_max)", "seen 11");
}

TEST(Failure, NumbersOfRowsAreNamed) {
  const auto window = make_local_window(replicated_shape(2));
  const auto results = on_threads(2, [&](int r) -> std::string {
    TestRank rank(window, r);
    rank.member.begin_step(6);
    const auto done = plain_join(rank.member, 30 + r);
    return done ? "succeeded" : done.failure().message;
  });
  for (const auto& text : results) {
    EXPECT_THAT(text, AnyOf(HasSubstr("of rank 1 differs: expected 30, seen 31"), HasSubstr("of rank 0 differs: expected 31, seen 30")));
  }
}

// Dispatches `rows` rows whose routes all go to `expert`.
Result<void> dispatch_rows(Member& member, int rows, int expert, int version = 0) {
  const GroupShape& shape = member.shape();
  Matrix x(shape.act, rows, shape.hidden), ids(DType::kI32, rows, shape.experts_per_token),
      weights(DType::kF32, rows, shape.experts_per_token);
  std::fill_n(ids.view().as<std::int32_t>(), ids.view().elements(), expert);
  auto got = member.dispatch(x.view(), ids.view(), weights.view(), Placement{16, shape.size, version});
  if (!got) return got.failure();
  return {};
}

TEST(Failure, WrongDispatch) {
  const GroupShape shape = distinct_shape(2, 4);
  const auto rows = [](int count, int expert, int version = 0) {
    return [=](Member& m) { return dispatch_rows(m, count, expert, version); };
  };
  expect_disagreement(shape, empty_dispatch, rows(5, 0), "expected at most 4 rows (rows_max)", "seen 5");
  expect_disagreement(shape, rows(2, 3), rows(1, 16), "expected experts below 16", "seen 16");
  expect_disagreement(shape, rows(2, 3), rows(1, -2), "expected experts below 16", "seen -2");
  expect_disagreement(shape, rows(2, 3, 1), rows(2, 3, 2), "placement version", "differs");
}

TEST(Failure, WrongStep) {
  const auto window = make_local_window(replicated_shape(2));
  const auto results = on_threads(2, [&](int r) -> std::string {
    TestRank rank(window, r);
    rank.member.begin_step(r == 0 ? 6 : 7);
    const auto done = plain_join(rank.member, 1);
    return done ? "succeeded" : done.failure().message;
  });
  EXPECT_THAT(results[0], AllOf(HasSubstr("rank 1 is elsewhere"), HasSubstr("expected join, partial sums (incarnation 0, step 6"),
                                HasSubstr("seen join, partial sums (incarnation 0, step 7")));
  EXPECT_THAT(results[1], AllOf(HasSubstr("rank 1, step 7"), HasSubstr("rank 0 ended the step"), HasSubstr("step 6")));
}

TEST(Failure, TooManyExchanges) {
  const auto window = make_local_window(replicated_shape(2));
  const auto results = on_threads(2, [&](int r) -> std::string {
    TestRank rank(window, r);
    rank.member.begin_step(1);
    for (int e = 0; e < 4096; ++e) {
      if (auto done = plain_join(rank.member, 0); !done) return done.failure().message;
    }
    const auto done = plain_join(rank.member, 0);
    return done ? "succeeded" : done.failure().message;
  });
  for (const auto& text : results) EXPECT_THAT(text, HasSubstr("at most 4096 exchanges"));
}

TEST(Failure, AbortFromOutsideReachesAllRanks) {
  const auto window = make_local_window(replicated_shape(4));
  std::vector<std::unique_ptr<TestRank>> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(std::make_unique<TestRank>(window, r));
  std::thread outside([&] { ranks[2]->member.abort("rank 3's process has ended" + std::string(5000, '.')); });
  const TimePoint began = Clock::now();
  const auto results = on_threads(3, [&](int r) -> std::string {
    Member& member = ranks[static_cast<std::size_t>(r)]->member;
    member.begin_step(1);
    return fails_at_once(member, "rank 3's process has ended");
  });
  outside.join();
  for (const auto& text : results) EXPECT_EQ(text, "");
  EXPECT_LT(Clock::now() - began, kDeadline / 2);
  ranks[3]->member.abort("too late to matter");
  ranks[3]->member.begin_step(1);
  EXPECT_EQ(fails_at_once(ranks[3]->member, "rank 3's process has ended"), "");
}

TEST(Failure, AGroupOfOneIsNotAborted) {
  const auto window = make_local_window(replicated_shape(1));
  TestRank rank(window, 0);
  rank.member.begin_step(1);
  rank.member.abort("nothing waits");
  EXPECT_TRUE(plain_join(rank.member, 2));
  EXPECT_FALSE(rank.member.await_announced(2, std::chrono::milliseconds(1)));
  const auto wrong = plain_join(rank.member, 1000);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.failure().code, FailureCode::kInternal);
  EXPECT_TRUE(plain_join(rank.member, 2));
}

TEST(Reincarnation, ServiceGoesOnAfterAFailure) {
  for (const bool distinct : {false, true}) {
    const GroupShape shape = distinct ? distinct_shape(4) : replicated_shape(4);
    const auto window = make_local_window(shape);
    std::barrier all(4);  // the agreement of the survivors
    const auto live = [&](int r) -> std::string {
      auto rank = std::make_unique<TestRank>(window, r);
      for (std::uint32_t incarnation = 1; incarnation <= 5; ++incarnation) {
        Member& member = rank->member;
        const auto run = [&](std::uint64_t step) {
          return distinct ? dispatch_steps(member, {.seed = incarnation, .first_step = step, .steps = 5})
                          : join_steps(member, {.seed = incarnation, .first_step = step, .steps = 5});
        };
        std::string wrong = run(1);
        if (!wrong.empty()) return fmt::format("incarnation {}: {}", incarnation - 1, wrong);
        member.begin_step(6);
        member.wish_kind(7);
        all.arrive_and_wait();
        const bool dies = r == static_cast<int>(incarnation % 4);
        if (dies) {
          member.abort("its process has ended");  // what the host of a dead rank says
        } else if (distinct ? empty_dispatch(member) : plain_join(member, 3)) {
          return "succeeded without a rank";
        }
        all.arrive_and_wait();
        if (dies) rank = std::make_unique<TestRank>(window, r);  // the replacement knows nothing
        rank->member.reincarnate(incarnation);
        if (rank->member.incarnation() != incarnation) return "another incarnation";
        if (rank->member.await_announced(1, Duration::zero())) return "the abort word or an announcement outlived its incarnation";
      }
      return {};
    };
    const auto results = on_threads(4, [&](int r) {
      std::string wrong = live(r);
      if (!wrong.empty()) all.arrive_and_drop();
      return wrong;
    });
    for (const auto& text : results) EXPECT_EQ(text, "");
  }
}

TEST(Reincarnation, LateWritesOfTheOldAreNotSeen) {
  const auto window = make_local_window(replicated_shape(2));
  TestRank old_leader(window, 0), old_peer(window, 1, kShort);
  old_peer.member.begin_step(1);
  EXPECT_FALSE(plain_join(old_peer.member, 2));
  TestRank leader(window, 0), peer(window, 1);
  leader.member.reincarnate(1);
  peer.member.reincarnate(1);
  // The old leader was only slow. Its order, announcement, partial sums and abort go nowhere.
  EXPECT_FALSE(old_leader.member.publish_order(1, {}) && peer.member.await_order(1, Duration::zero()));
  old_leader.member.announce(1);
  fill(old_leader.member.partial(3), 1, 1);
  old_leader.member.begin_step(1);
  EXPECT_EQ(fails_at_once(old_leader.member, "for rank 0"), "");
  old_leader.member.abort("an old story");
  EXPECT_FALSE(peer.member.await_announced(1, Duration::zero()));
  const auto results = on_threads(2, [&](int r) { return join_steps(r == 0 ? leader.member : peer.member, {.seed = 8, .steps = 6}); });
  for (const auto& text : results) EXPECT_EQ(text, "");
}

TEST(Waiting, ManyRanksOnFewCoresSleep) {
  const auto window = make_local_window(replicated_shape(16));
  const auto cpu_seconds = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  const double cpu_before = cpu_seconds();
  const TimePoint began = Clock::now();
  const auto results = on_threads(15, [&](int r) -> std::string {  // rank 15 never comes
    TestRank rank(window, r, std::chrono::milliseconds(800));
    rank.member.begin_step(1);
    return plain_join(rank.member, 3) ? "succeeded" : "";
  });
  for (const auto& text : results) EXPECT_EQ(text, "");
  const double wall = seconds(Clock::now() - began);
  EXPECT_GE(wall, 0.7);
  EXPECT_LT(cpu_seconds() - cpu_before, 0.3 * wall);
}

}  // namespace
}  // namespace qwell::testing
