// Random histories of acquire, grow, publish and release against the invariants: no page in two writers' hands, contents found by hash are
// those that were written, all pages back at the end.

#include "cache/page_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace qwell {
namespace {

std::vector<TokenId> tokens_of(Random& random, int count, int alphabet) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (TokenId& t : tokens) t = random.range(0, alphabet - 1);
  return tokens;
}

TEST(PageCache, HashDependsOnModelSaltAndEveryToken) {
  const std::vector<TokenId> a{1, 2, 3};
  const std::vector<TokenId> b{1, 2, 4};
  const PageHash root = root_hash("m", "");
  EXPECT_EQ(next_hash(root, a), next_hash(root_hash("m", ""), a));
  EXPECT_NE(next_hash(root, a), next_hash(root, b));
  EXPECT_NE(root, root_hash("m", "s"));
  EXPECT_NE(root_hash("ab", "c"), root_hash("a", "bc"));
}

TEST(PageCache, FindsPublishedPrefixAndLeavesOneTokenToCompute) {
  PageCache cache(10, 4, "m");
  const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::int32_t> pages;
  {
    auto table = cache.acquire(tokens, "", 8);
    ASSERT_TRUE(table);
    EXPECT_EQ(table->cached_tokens(), 0);
    table->publish(tokens, 8);
    pages = table->pages();
  }
  EXPECT_EQ(cache.usage().cached, 2);
  EXPECT_EQ(cache.find(tokens, ""), 4);  // of 8 tokens, the last must be computed
  EXPECT_EQ(cache.find(tokens, "other"), 0);
  const std::vector<TokenId> longer{1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto table = cache.acquire(longer, "", 12);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->cached_tokens(), 8);
  EXPECT_EQ(table->pages()[0], pages[0]);
  EXPECT_EQ(table->pages()[1], pages[1]);
  cache.check();
}

TEST(PageCache, TakesLeastRecentlyUsedWhenFreePagesRunOut) {
  PageCache cache(4, 2, "m");
  const std::vector<TokenId> old_tokens{1, 2, 3};
  const std::vector<TokenId> new_tokens{4, 5, 6};
  for (const auto& tokens : {old_tokens, new_tokens}) {
    auto table = cache.acquire(tokens, "", 2);
    table->publish(tokens, 2);
  }
  auto table = cache.acquire(std::vector<TokenId>{9}, "", 6);  // two free pages and one cached
  ASSERT_TRUE(table);
  EXPECT_EQ(cache.find(old_tokens, ""), 0);
  EXPECT_EQ(cache.find(new_tokens, ""), 2);
  EXPECT_FALSE(table->grow_to(10));
  EXPECT_EQ(table->pages().size(), 3U);
  EXPECT_TRUE(table->grow_to(8));
  cache.check();
}

TEST(PageCache, RandomHistories) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int page_tokens = random.range(1, 5);
    PageCache cache(random.range(1, 40), page_tokens, "m", seed % 4 != 3);
    struct Live {
      std::vector<TokenId> tokens;
      std::string salt;
      PageTable table;
      int computed = 0;
    };
    std::vector<Live> live;
    std::map<std::int32_t, PageHash> content;  // what was last written to a page, as the hash up to its end
    for (int round = 0; round < 2000; ++round) {
      const int action = random.range(0, 9);
      if (action < 4) {
        Live one{tokens_of(random, random.range(1, 24), 2), random.chance(0.2) ? "s" : "", {}, 0};
        const auto before = cache.usage();
        auto table = cache.acquire(one.tokens, one.salt, static_cast<int>(one.tokens.size()) + random.range(0, 6));
        if (!table) {
          const auto after = cache.usage();
          ASSERT_TRUE(before.free == after.free && before.cached == after.cached);
          continue;
        }
        one.table = std::move(*table);
        one.computed = one.table.cached_tokens();
        ASSERT_LT(one.computed, static_cast<int>(one.tokens.size()));
        PageHash hash = root_hash("m", one.salt);
        for (int p = 0; p < one.computed / page_tokens; ++p) {
          hash = next_hash(hash,
                           std::span(one.tokens).subspan(static_cast<std::size_t>(p * page_tokens), static_cast<std::size_t>(page_tokens)));
          ASSERT_EQ(content.at(one.table.pages()[static_cast<std::size_t>(p)]), hash) << "a cached page has another content";
        }
        live.push_back(std::move(one));
      } else if (action < 8 && !live.empty()) {
        Live& one = live[random.below(static_cast<std::uint32_t>(live.size()))];
        if (one.computed == static_cast<int>(one.tokens.size())) {
          one.tokens.push_back(random.range(0, 1));
          if (!one.table.grow_to(static_cast<int>(one.tokens.size()))) {
            one.tokens.pop_back();
            continue;
          }
        }
        // "Compute" tokens: pages written from here on are this sequence's alone.
        const int to = random.range(one.computed + 1, static_cast<int>(one.tokens.size()));
        PageHash hash = root_hash("m", one.salt);
        for (int p = 0; (p + 1) * page_tokens <= to; ++p) {
          hash = next_hash(hash,
                           std::span(one.tokens).subspan(static_cast<std::size_t>(p * page_tokens), static_cast<std::size_t>(page_tokens)));
          if ((p + 1) * page_tokens > one.computed) content[one.table.pages()[static_cast<std::size_t>(p)]] = hash;
        }
        one.computed = to;
        if (random.chance(0.7)) one.table.publish(one.tokens, one.computed);
      } else if (!live.empty()) {
        live.erase(live.begin() + random.below(static_cast<std::uint32_t>(live.size())));
      }
      cache.check();
      // A page that is still to be written is in one table only.
      std::map<std::int32_t, int> writers;
      for (const Live& one : live) {
        for (std::size_t p = static_cast<std::size_t>(one.computed / page_tokens); p < one.table.pages().size(); ++p) {
          ASSERT_EQ(++writers[one.table.pages()[p]], 1);
        }
      }
    }
    live.clear();
    EXPECT_EQ(cache.usage().held, 0);
    cache.clear_index();
    EXPECT_EQ(cache.usage().free, cache.num_pages());
    cache.check();
  }
}

}  // namespace
}  // namespace qwell
