#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/pretokenizer.h"

namespace qwell {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text, SplitPattern pattern) {
  const Pretokenizer pretokenizer(pattern);
  Pieces pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = pretokenizer.piece_end(text, begin);
    EXPECT_GT(end, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

TEST(Pretokenizer, SplitsAsThePatternSays) {
  const std::vector<Pieces> cases = {
      {"Hello", ",", " world", "!"},
      {"it", "'s", " we", "'LL", " x", "'Re", "x", "'ve", "'l"},  // 'l is none of them: the apostrophe leads a word
      {"it", "'ſ", "x", "'s", "ſ", "'D", "'m", "'t", "t"},        // the long s is an s of another case
      {"1", "2", "3", "²", "Ⅷ", "٣"},
      {" ", " a", "  ", "\tb"},
      {"a", " \n\n", "  ", " b"},
      {"!?\r\n\n", "x", " ...\n", "  "},
      {"\u00a0x", "\u3000", "1", "\u2003", "\u2003y"},
      {"(x", ")(", "y", ")\n"},
      {"中文", "，中", "。。", "中"},
      {"\u200bx", " \u200b", "1"},
  };
  for (const Pieces& pieces : cases) {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    EXPECT_EQ(split(text, SplitPattern::kQwen3), pieces) << text;
    EXPECT_EQ(split(text, SplitPattern::kQwen35), pieces) << text;
  }
}

TEST(Pretokenizer, CombiningMarksJoinWordsInQwen35) {
  const std::string text = "\u0915\u093fa \u093fb !\u0301x";
  EXPECT_EQ(split(text, SplitPattern::kQwen3), (Pieces{"\u0915", "\u093fa", " \u093f", "b", " !\u0301", "x"}));
  EXPECT_EQ(split(text, SplitPattern::kQwen35), (Pieces{"\u0915\u093fa", " \u093fb", " !", "\u0301x"}));
  EXPECT_EQ(split("\u0301\u0301 a\u0301b", SplitPattern::kQwen3), (Pieces{"\u0301\u0301", " a", "\u0301b"}));
}

TEST(Pretokenizer, OtherPatternsAreUnknown) {
  EXPECT_EQ(split_pattern_of(""), std::nullopt);
  EXPECT_EQ(split_pattern_of("\\s+"), std::nullopt);
}

}  // namespace
}  // namespace qwell
