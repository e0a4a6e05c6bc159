#include "device/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace qwell {
namespace {

TEST(Team, EveryIndexOnceAndEveryWorkerOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    for (const int spin_us : {0, 50}) {
      Team team(threads, spin_us);
      ASSERT_EQ(team.size(), threads);
      for (int round = 0; round < 200; ++round) {
        std::vector<std::atomic<int>> workers(static_cast<std::size_t>(threads));
        team.run([&](int worker) { ++workers[static_cast<std::size_t>(worker)]; });
        for (const auto& count : workers) ASSERT_EQ(count, 1);
        std::vector<std::atomic<int>> indices(static_cast<std::size_t>(round % 37));
        team.for_each(round % 37, [&](int i) { ++indices[static_cast<std::size_t>(i)]; });
        for (const auto& count : indices) ASSERT_EQ(count, 1);
      }
    }
  }
}

}  // namespace
}  // namespace qwell
