#include "server/answer_text.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/support/byte_codec.h"

namespace qwell::server {
namespace {

using test::ByteCodec;

TokenEvent token(TokenId id) {
  TokenEvent e;
  e.token = id;
  return e;
}

// Whatever is taken when, the parts add up to the same answer; every token comes once, in order, and never before its text.
TEST(AnswerText, PiecesAddUp) {
  const ByteCodec codec;
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    static const std::vector<std::string> kPieces = {"a", "b", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "ab"};
    std::string text;
    for (int n = random.range(0, 12); n > 0; --n) text += kPieces[random.below(6)];
    if (random.chance(0.3) && !text.empty()) text.pop_back();  // a character that never becomes whole
    const AnswerRules rules{.stops = {kPieces[random.below(6)] + kPieces[random.below(6)]},
                            .include_stop = random.chance(0.5),
                            .stop_token_ids = {},
                            .min_tokens = 0};
    const auto run = [&](double take_chance) {
      AnswerText answer(codec.stream(true), rules);
      AnswerDelta all;
      const auto take = [&] {
        AnswerDelta d = answer.take();
        all.text += d.text;
        for (auto& t : d.tokens) all.tokens.push_back(std::move(t));
        EXPECT_LE(count_characters(all.text), text.size());
      };
      for (const TokenId id : test::bytes_of(text)) {
        if (!answer.push(token(id))) break;
        if (random.chance(take_chance)) take();
      }
      answer.finish();
      take();
      EXPECT_EQ(all.tokens.size(), static_cast<std::size_t>(answer.token_count()));
      return all;
    };
    const auto at_once = run(0);
    const auto in_pieces = run(0.7);
    ASSERT_EQ(at_once.text, in_pieces.text);
    ASSERT_EQ(at_once.tokens.size(), in_pieces.tokens.size());
    for (std::size_t i = 0; i < at_once.tokens.size(); ++i) {
      ASSERT_EQ(at_once.tokens[i].event.token, static_cast<unsigned char>(text[i]));
      ASSERT_EQ(at_once.tokens[i].text_offset, in_pieces.tokens[i].text_offset);
    }
  }
}

TEST(AnswerText, HoldsTokensWithTheirText) {
  const ByteCodec codec;
  AnswerText answer(codec.stream(true), {.stops = {"bc"}, .include_stop = false, .stop_token_ids = {}, .min_tokens = 0}, 10);
  EXPECT_TRUE(answer.push(token('a')));
  EXPECT_TRUE(answer.push(token('b')));
  AnswerDelta d = answer.take();
  EXPECT_EQ(d.text, "a");
  ASSERT_EQ(d.tokens.size(), 1U);
  EXPECT_EQ(d.tokens[0].text_offset, 10U);
  EXPECT_FALSE(answer.push(token('c')));
  EXPECT_FALSE(answer.push(token('d')));
  answer.finish();
  d = answer.take();
  EXPECT_EQ(d.text, "");
  EXPECT_EQ(d.tokens.size(), 2U);
  EXPECT_EQ(answer.token_count(), 3);
  ASSERT_NE(answer.stop_string(), nullptr);
  EXPECT_EQ(*answer.stop_string(), "bc");
}

TEST(AnswerText, NoStopStringBeforeMinTokens) {
  const ByteCodec codec;
  AnswerText answer(codec.stream(true), {.stops = {"ab"}, .include_stop = false, .stop_token_ids = {}, .min_tokens = 3});
  for (const char c : std::string("abab")) EXPECT_TRUE(answer.push(token(c)));  // its second "a" lies within the three
  EXPECT_TRUE(answer.push(token('a')));
  EXPECT_FALSE(answer.push(token('b')));
  EXPECT_EQ(answer.take().text, "abab");
}

TEST(AnswerText, ASpecialTokenNeedsNoText) {
  const ByteCodec codec;
  AnswerText answer(codec.stream(true), {});
  EXPECT_TRUE(answer.push(token(test::kEos)));
  EXPECT_EQ(answer.take().tokens.size(), 1U);
  answer.finish();
  EXPECT_TRUE(answer.take().empty());
}

}  // namespace
}  // namespace qwell::server
