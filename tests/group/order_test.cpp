// Orders of a leader, announcements, agreed kinds.

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>

#include "base/random.h"
#include "group/support/scenarios.h"

namespace qwell::testing {
namespace {

std::vector<std::byte> order_of(std::uint64_t step) {
  Random random(9, step);
  std::vector<std::byte> order(random.below(1001));
  for (std::byte& b : order) b = static_cast<std::byte>(random.bits());
  return order;
}

std::string follow_orders(Member& member, int steps) {
  std::span<const std::byte> last;
  for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(steps); ++step) {
    const auto wanted = order_of(step);
    if (member.rank() == 0) {
      if (auto published = member.publish_order(step, wanted); !published) return published.failure().message;
    } else {
      auto order = member.await_order(step, kDeadline);
      if (!order) return order.failure().message;
      if (!std::equal(order->begin(), order->end(), wanted.begin(), wanted.end())) return fmt::format("order {} differs", step);
      last = *order;
    }
    if (step % 3 != 0) continue;  // some orders come without a step in between
    member.begin_step(step);
    if (auto joined = plain_join(member, static_cast<int>(step) % 5); !joined) return joined.failure().message;
    if (member.rank() != 0 && !std::equal(last.begin(), last.end(), wanted.begin(), wanted.end()))
      return "the order changed while it was held";
  }
  return {};
}

TEST(Orders, ReachAllRanks) {
  for (const int size : {1, 2, 8}) run_threads(replicated_shape(size), [](Member& m) { return follow_orders(m, 60); });
  run_processes(replicated_shape(4), [](Member& m) { return follow_orders(m, 60); });
}

TEST(Orders, OneIsOutstanding) {
  const auto window = make_local_window(replicated_shape(2));
  TestRank leader(window, 0, kShort), follower(window, 1, kShort);
  const auto none = follower.member.await_order(4, std::chrono::milliseconds(5));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.failure().code, FailureCode::kDeadline);
  const auto order = order_of(4);
  ASSERT_TRUE(leader.member.publish_order(4, order));
  const auto full = leader.member.publish_order(5, order);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.failure().code, FailureCode::kDeadline);
  EXPECT_NE(full.failure().message.find("order of step 4 is not taken by rank 1"), std::string::npos) << full.failure().message;
  ASSERT_TRUE(follower.member.await_order(4, kShort));
  ASSERT_TRUE(leader.member.publish_order(5, {}));
  const auto empty = follower.member.await_order(5, kShort);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
  const auto large = leader.member.publish_order(6, std::vector<std::byte>(1001));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.failure().code, FailureCode::kTooLarge);
}

TEST(Orders, AMissedOrderIsAFailure) {
  const auto window = make_local_window(replicated_shape(2));
  TestRank leader(window, 0, kShort), follower(window, 1, kShort);
  ASSERT_TRUE(leader.member.publish_order(9, order_of(9)));
  const auto order = follower.member.await_order(8, kShort);
  ASSERT_FALSE(order);
  EXPECT_EQ(order.failure().code, FailureCode::kInternal);
  EXPECT_NE(order.failure().message.find("step 9"), std::string::npos) << order.failure().message;
}

TEST(Wake, EndsWaitsBeforeAndDuring) {
  const auto window = make_local_window(distinct_shape(2));
  TestRank rank(window, 1);
  rank.member.wake();
  EXPECT_FALSE(rank.member.await_announced(1, kDeadline));
  std::thread waker([&] { rank.member.wake(); });
  const TimePoint began = Clock::now();
  const auto order = rank.member.await_order(1, kDeadline);
  waker.join();
  ASSERT_FALSE(order);
  EXPECT_EQ(order.failure().code, FailureCode::kDeadline);
  EXPECT_LT(Clock::now() - began, kDeadline / 2);
}

TEST(Announcements, IdleRanksJoin) {
  // In each step some ranks have work, at least one; the others see the announcement and take part with no rows.
  const auto scenario = [](Member& member) -> std::string {
    for (std::uint64_t step = 1; step <= 40; ++step) {
      Random random(3, step);
      const auto first = random.below(static_cast<std::uint32_t>(member.size()));
      const bool works =
          static_cast<int>(first) == member.rank() || Random(4, step * 16 + static_cast<std::uint64_t>(member.rank())).chance(0.3);
      if (works) {
        member.announce(step);
      } else if (!member.await_announced(step, kDeadline)) {
        return fmt::format("step {} not announced", step);
      }
      std::string wrong = dispatch_steps(member, {.seed = 11, .first_step = step, .steps = 1});
      if (!wrong.empty()) return wrong;
    }
    return {};
  };
  for (const int size : {2, 4, 16}) run_threads(distinct_shape(size, 5), scenario);
  run_processes(distinct_shape(2, 5), scenario);
}

TEST(Announcements, PatienceEnds) {
  const auto window = make_local_window(distinct_shape(1));
  TestRank rank(window, 0);
  EXPECT_FALSE(rank.member.await_announced(1, std::chrono::milliseconds(2)));
  rank.member.announce(1);
  EXPECT_TRUE(rank.member.await_announced(1, std::chrono::milliseconds(2)));
  EXPECT_FALSE(rank.member.await_announced(2, std::chrono::milliseconds(2)));
}

TEST(Kinds, TheLargestWishIsInForceTwoStepsLater) {
  const auto wish = [](std::uint64_t step, int rank) { return Random(21, step * 32 + static_cast<std::uint64_t>(rank)).range(0, 9); };
  for (const bool distinct : {false, true}) {
    for (const int size : {1, 2, 8}) {
      run_threads(distinct ? distinct_shape(size) : replicated_shape(size), [&](Member& member) -> std::string {
        for (std::uint64_t step = 1; step <= 20; ++step) {
          int wanted = 0;
          for (int r = 0; step > 2 && r < size; ++r) wanted = std::max(wanted, wish(step - 2, r));
          member.begin_step(step);
          member.wish_kind(wish(step, member.rank()));
          if (member.agreed_kind() != wanted) return fmt::format("step {}: kind {}, wanted {}", step, member.agreed_kind(), wanted);
          if (distinct) {
            if (!member.dispatch({}, {}, {}, Placement{16, size, 0}) || !member.combine({})) return "exchange failed";
          } else if (!plain_join(member, 3)) {
            return "join failed";
          }
          if (member.agreed_kind() != wanted) return fmt::format("step {}: the kind changed in the step", step);
        }
        return {};
      });
    }
  }
}

}  // namespace
}  // namespace qwell::testing
