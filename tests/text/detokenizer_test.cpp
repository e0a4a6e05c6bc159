#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "text/unicode.h"

namespace qwell {
namespace {

using Ids = std::vector<std::int32_t>;

Tokenizer small() { return Tokenizer::load(std::filesystem::path(QWELL_TEST_DATA) / "tokenizer" / "small"); }

// One token per byte.
Ids bytes_of(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  for (std::size_t i = 0; i < text.size(); ++i) ids.push_back(*tokenizer.id_of(text.substr(i, 1)));
  return ids;
}

TEST(Detokenizer, HoldsBackUnfinishedCharacters) {
  const Tokenizer tokenizer = small();
  Detokenizer stream(tokenizer);
  std::vector<std::string> texts;
  for (const std::int32_t id : bytes_of(tokenizer, "a😀\xC3z")) texts.push_back(stream.push(id));
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "", "", "", "😀", "", "\uFFFDz"}));
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(bytes_of(tokenizer, "b\xF0\x9F\x98")), "b");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(bytes_of(tokenizer, "\x98")), "\uFFFD");  // a new stream: nothing is left of the last one
}

TEST(Detokenizer, SpecialTokens) {
  const Tokenizer tokenizer = small();
  const Ids ids = {*tokenizer.id_of("<think>"), *tokenizer.id_of("<|im_end|>"), tokenizer.size(), -1};
  EXPECT_EQ(Detokenizer(tokenizer, false).push(ids), "<think><|im_end|>");
  EXPECT_EQ(Detokenizer(tokenizer).push(ids), "<think>");
}

// For any tokens, one by one or in groups: whole characters only, and together the text of all.
TEST(Detokenizer, EqualsDecodeOfAll) {
  const Tokenizer tokenizer = small();
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    Ids ids;
    for (int n = random.range(0, 14); n > 0; --n) {
      const std::uint32_t kind = random.below(4);
      if (kind == 0) ids.push_back(random.range(-2, tokenizer.size() + 2));
      if (kind == 1) ids.push_back(*tokenizer.id_of(std::string(1, static_cast<char>(random.below(256)))));
      if (kind == 2) {  // part of a character
        static const std::vector<std::string> kCharacters = {"\u00e9", "\u0915", "\uFFFD", "😀", "\U0010FFFF", "\xED\xA0\x80", "\xF5\x80"};
        const Ids all = bytes_of(tokenizer, kCharacters[random.below(static_cast<std::uint32_t>(kCharacters.size()))]);
        ids.insert(ids.end(), all.begin(), all.begin() + random.range(1, static_cast<int>(all.size())));
      }
      if (kind == 3) ids.push_back(random.range(tokenizer.size() - 12, tokenizer.size() - 1));
    }
    for (const bool skip_special : {false, true}) {
      Detokenizer stream(tokenizer, skip_special);
      std::string text;
      for (std::size_t i = 0; i < ids.size();) {
        const std::size_t n = std::min<std::size_t>(random.range(1, 3), ids.size() - i);
        const std::string part = stream.push(std::span(ids).subspan(i, n));
        EXPECT_TRUE(valid_utf8(part));
        text += part;
        i += n;
      }
      EXPECT_EQ(text + stream.flush(), tokenizer.decode(ids, skip_special)) << testing::PrintToString(ids);
    }
  }
}

}  // namespace
}  // namespace qwell
