// Sessions: the table of states, every unit exactly once whatever the order, all pairs of shardings moved byte for byte, stale and
// duplicate immediates harmless, deadlines that name what is missing.

#include "transfer/session.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "base/random.h"

namespace qwell {
namespace {

PageLayout layout_of(int page_tokens, int heads) { return {DType::kBf16, page_tokens, heads, 4}; }

// One side's memory for one sequence: its pages are scattered.
struct Side {
  KvShard shard;
  int layers;
  std::vector<std::uint16_t> data;
  std::vector<std::int32_t> pages;
  int num_pages;

  Side(Range heads, int page_tokens, int layers_in, int tokens, Random& random)
      : shard{heads, layout_of(page_tokens, heads.count)}, layers(layers_in) {
    const int used = shard.layout.pages_for(tokens);
    num_pages = used + 3;
    data.assign(static_cast<std::size_t>(layers * num_pages * shard.layout.page()), 0);
    std::vector<std::int32_t> all(static_cast<std::size_t>(num_pages));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random.below(static_cast<std::uint32_t>(i + 1))]);
    pages.assign(all.begin(), all.begin() + used);
  }

  std::byte* layer(int l) { return reinterpret_cast<std::byte*>(data.data()) + l * num_pages * shard.layout.page_bytes(); }
  std::uint16_t& at(int l, int position, int head, bool value, int d) {
    const PageLayout& p = shard.layout;
    const auto page = pages[static_cast<std::size_t>(position / p.page_tokens)];
    return data[static_cast<std::size_t>(l * num_pages * p.page() +
                                         p.offset(page, head - shard.heads.first, value, position % p.page_tokens) + d)];
  }
};

std::uint16_t content(int l, int position, int head, bool value, int d) {
  return static_cast<std::uint16_t>((((l * 1000 + position) * 8 + head) * 2 + (value ? 1 : 0)) * 4 + d + 1);
}

SessionAddress address_of(Side& side, std::vector<std::byte>& hidden) {
  return {.layer_base = side.layer(0),
          .layer_stride = side.layer(1) - side.layer(0),
          .pages = side.pages,
          .hidden = hidden.data(),
          .immediate_base = 0};
}

TEST(Session, TableOfStatesEndsCompleteOrFailed) {
  using S = SessionState;
  using E = SessionEvent;
  for (const S from : {S::kOpen, S::kWriting, S::kComplete, S::kFailed}) {
    for (const E event : {E::kUnit, E::kLastUnit, E::kFault}) {
      const auto to = next_state(from, event);
      const bool ended = from == S::kComplete || from == S::kFailed;
      if (ended) {
        EXPECT_EQ(to.has_value(), event == E::kFault);
        EXPECT_EQ(to.value_or(from), from);
      } else {
        ASSERT_TRUE(to);
        EXPECT_EQ(*to, event == E::kUnit ? S::kWriting : event == E::kLastUnit ? S::kComplete : S::kFailed);
      }
    }
  }
}

TEST(Session, EveryPairOfShardingsInChunks) {
  constexpr int kHeads = 4;
  constexpr int kLayers = 3;
  Random random(3);
  for (const int sources : {1, 2, 4, 8}) {
    for (const int src_page : {16, 64}) {
      for (const int dst_page : {16, 64, 128}) {
        const int tokens = random.range(1, 200);
        std::vector<std::byte> hidden(32);
        Side dst({0, kHeads}, dst_page, kLayers, tokens, random);
        std::vector<Side> src;
        SessionPlan plan{.id = random.bits64(),
                         .layers = kLayers,
                         .first_position = 0,
                         .end_position = tokens,
                         .sources = {},
                         .destination = dst.shard,
                         .hidden_bytes = 32};
        plan.first_position = random.range(0, (tokens - 1) / dst_page) * dst_page;
        for (int s = 0; s < sources; ++s) {
          src.emplace_back(kv_heads_of(kHeads, s, sources), src_page, kLayers, tokens, random);
          plan.sources.push_back(src.back().shard);
        }
        // Starts just before the ring's end.
        SessionTable table(0xfffffff0U);
        auto session = table.open(plan, address_of(dst, hidden), Deadline::never());
        LocalTransport transport(table);
        std::vector<SessionWriter> writers;
        for (int s = 0; s < sources; ++s) writers.emplace_back(plan, session->address(), s, transport);
        for (int computed = 0; computed < tokens;) {
          const int end = std::min(tokens, computed + random.range(1, 70));
          for (int l = 0; l < kLayers; ++l) {
            for (int s = 0; s < sources; ++s) {
              Side& side = src[static_cast<std::size_t>(s)];
              for (int p = computed; p < end; ++p) {
                for (int h = side.shard.heads.first; h < side.shard.heads.end(); ++h) {
                  for (int d = 0; d < 8; ++d) side.at(l, p, h, d >= 4, d % 4) = content(l, p, h, d >= 4, d % 4);
                }
              }
              ASSERT_TRUE(writers[static_cast<std::size_t>(s)].push(l, end, side.layer(l), side.pages));
            }
          }
          computed = end;
        }
        ASSERT_EQ(session->missing(), 1U);
        std::vector<std::byte> row(32, std::byte{7});
        ASSERT_TRUE(writers[0].push_hidden(row));
        EXPECT_EQ(session->state(), SessionState::kComplete);
        EXPECT_EQ(hidden, row);
        std::uint64_t sent = 0;
        for (const auto& writer : writers) sent += writer.bytes_sent();
        EXPECT_EQ(sent, static_cast<std::uint64_t>(plan.kv_bytes()));
        for (int l = 0; l < kLayers; ++l) {
          for (int p = 0; p < tokens; ++p) {
            for (int h = 0; h < kHeads; ++h) {
              for (int d = 0; d < 8; ++d) {
                ASSERT_EQ(dst.at(l, p, h, d >= 4, d % 4), p < plan.first_position ? 0 : content(l, p, h, d >= 4, d % 4))
                    << l << " " << p << " " << h;
              }
            }
          }
        }
      }
    }
  }
}

TEST(Session, DuplicatesAndStaleImmediatesAreCountedAndHarmless) {
  Random random(1);
  std::vector<std::byte> hidden;
  Side dst({0, 1}, 16, 1, 40, random);
  const SessionPlan plan{.id = 1, .layers = 1, .first_position = 0, .end_position = 40, .sources = {dst.shard}, .destination = dst.shard};
  SessionTable table;
  std::uint32_t base = 0;
  {
    auto session = table.open(plan, address_of(dst, hidden), Deadline::never());
    base = session->address().immediate_base;
    table.deliver(base);
    table.deliver(base);
    EXPECT_EQ(session->missing(), 2U);
    EXPECT_EQ(table.counters().duplicates, 1U);
    table.deliver(base + 3);  // beyond its units
    EXPECT_EQ(table.counters().stale, 1U);
    EXPECT_EQ(table.open_sessions(), 1);
    session->fail({FailureCode::kCancelled, "enough", {}});
    table.deliver(base + 1);  // late: ignored
    EXPECT_EQ(session->state(), SessionState::kFailed);
    EXPECT_EQ(session->missing(), 2U);
    EXPECT_EQ(table.counters().stale, 2U);
  }
  EXPECT_EQ(table.open_sessions(), 0);
  table.deliver(base + 1);
  EXPECT_EQ(table.counters().stale, 3U);
}

TEST(Session, DeadlineNamesWhatIsMissing) {
  Random random(1);
  std::vector<std::byte> hidden;
  Side dst({0, 1}, 16, 2, 40, random);
  const SessionPlan plan{.id = 9, .layers = 2, .first_position = 0, .end_position = 40, .sources = {dst.shard}, .destination = dst.shard};
  SessionTable table;
  auto session = table.open(plan, address_of(dst, hidden), Deadline::in(Duration::zero()));
  table.deliver(session->address().immediate_base);
  table.sweep();
  EXPECT_EQ(session->state(), SessionState::kFailed);
  EXPECT_EQ(session->failure().code, FailureCode::kDeadline);
  EXPECT_NE(session->failure().message.find("layer 0, positions 16 to 31, source rank 0"), std::string::npos) << session->failure().message;
}

TEST(Session, LiveRangesNeverMeetOnTheRing) {
  Random random(5);
  std::vector<std::byte> hidden;
  Side dst({0, 1}, 16, 1, 64, random);
  SessionTable table(0xffffffffU - 50);
  std::vector<std::shared_ptr<Session>> live;
  for (int round = 0; round < 500; ++round) {
    const SessionPlan plan{.id = static_cast<std::uint64_t>(round),
                           .layers = 1,
                           .first_position = 0,
                           .end_position = random.range(1, 64),
                           .sources = {dst.shard},
                           .destination = dst.shard};
    live.push_back(table.open(plan, address_of(dst, hidden), Deadline::never()));
    for (std::size_t i = 0; i + 1 < live.size(); ++i) {
      const std::uint64_t a = live[i]->address().immediate_base;
      const std::uint64_t b = live.back()->address().immediate_base;
      ASSERT_TRUE(a + live[i]->plan().unit_count() <= b || b + live.back()->plan().unit_count() <= a);
    }
    if (live.size() > 10) live.erase(live.begin() + random.below(10));
    if (random.chance(0.3)) table.sweep();
  }
}

TEST(Session, UnitsFromManyThreads) {
  Random random(2);
  std::vector<std::byte> hidden;
  Side dst({0, 1}, 16, 8, 1600, random);
  const SessionPlan plan{.id = 1, .layers = 8, .first_position = 0, .end_position = 1600, .sources = {dst.shard}, .destination = dst.shard};
  SessionTable table;
  auto session = table.open(plan, address_of(dst, hidden), Deadline::never());
  const std::uint32_t base = session->address().immediate_base;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t u = t; u < plan.unit_count(); u += 2) table.deliver(base + u);  // every unit twice
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(session->state(), SessionState::kComplete);
}

}  // namespace
}  // namespace qwell
