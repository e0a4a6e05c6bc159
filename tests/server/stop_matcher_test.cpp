#include "server/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace qwell::server {
namespace {

struct Outcome {
  std::string text;
  std::optional<std::size_t> stop;
  bool operator==(const Outcome&) const = default;
};

// The definition, by trying everything.
Outcome reference(const std::vector<std::string>& stops, const std::string& text, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const bool ends_here = end >= stops[i].size() && text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0;
      if (ends_here && (!best || stops[i].size() > stops[*best].size())) best = i;
    }
    if (best) return {text.substr(0, include ? end : end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces, bool include) {
  StopMatcher matcher(stops, include);
  Outcome out;
  for (const auto& piece : pieces) out.text += matcher.push(piece);
  out.text += matcher.flush();
  out.stop = matcher.matched();
  return out;
}

std::vector<std::string> split(const std::string& text, Random& random) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const auto n = static_cast<std::size_t>(random.range(0, 4));
    pieces.push_back(text.substr(at, n));
    at += n;
  }
  return pieces;
}

TEST(StopMatcher, EqualsTheDefinitionForEverySplit) {
  Random random(7);
  for (int round = 0; round < 4000; ++round) {
    const char letters = random.chance(0.5) ? 'b' : 'c';
    const auto word = [&](int low, int high) {
      std::string text;
      for (int n = random.range(low, high); n > 0; --n) text.push_back(static_cast<char>(random.range('a', letters)));
      return text;
    };
    std::vector<std::string> stops;
    for (int n = random.range(0, 4); n > 0; --n) stops.push_back(word(1, 6));
    const std::string text = word(0, 24);
    const bool include = random.chance(0.5);
    const Outcome wanted = reference(stops, text, include);
    ASSERT_EQ(run(stops, {text}, include), wanted) << text;
    for (int k = 0; k < 4; ++k) ASSERT_EQ(run(stops, split(text, random), include), wanted) << text;
  }
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAMatch) {
  StopMatcher matcher({"</end>", "STOP"});
  EXPECT_EQ(matcher.push("text </en"), "text ");
  EXPECT_EQ(matcher.held_bytes(), 4U);
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.push("x ST"), "</enx ");
  EXPECT_EQ(matcher.push("O"), "");
  EXPECT_EQ(matcher.flush(), "STO");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, NothingAfterAMatch) {
  StopMatcher matcher({"b"});
  EXPECT_EQ(matcher.push("abc"), "a");
  EXPECT_EQ(matcher.push("abc"), "");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_EQ(matcher.matched(), 0U);
}

TEST(StopMatcher, LongRepetitiveStopsTakeLinearTime) {
  std::vector<std::string> stops;
  for (int i = 0; i < 32; ++i) stops.push_back(std::string(static_cast<std::size_t>(4000 + i), 'a') + "b");
  StopMatcher matcher(stops);
  std::size_t out = 0;
  for (int i = 0; i < 20000; ++i) out += matcher.push("a").size();
  EXPECT_EQ(out + matcher.held_bytes(), 20000U);
  EXPECT_EQ(matcher.held_bytes(), 4031U);
}

}  // namespace
}  // namespace qwell::server
