// The tokenizer against Hugging Face's `tokenizers`; the data is made by tools/golden/tokenizer_golden.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace qwell {
namespace {

using Ids = std::vector<std::int32_t>;

json::value data(const std::string& name) {
  const auto path = std::filesystem::path(QWELL_TEST_DATA) / "tokenizer" / name;
  return parse_json_file(read_file(path), path.string());
}

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

Ids ids_of(const json::value& value) {
  Ids ids;
  for (const json::value& id : value.as_array()) ids.push_back(static_cast<std::int32_t>(id.as_int64()));
  return ids;
}

// FNV-1a, 64 bits, over the ids as four bytes each, low byte first.
std::string hash_of(const Ids& ids) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::int32_t id : ids) {
    for (unsigned shift = 0; shift < 32; shift += 8) hash = (hash ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xFF)) * 0x100000001B3U;
  }
  return fmt::format("{:016x}", hash);
}

// The hash of the i-th string in a variant of the encoding that lists only what differs from the plain one.
std::string hash_in(const json::value& golden, std::string_view variant, std::size_t i) {
  const auto* differing = golden.at(variant).as_object().if_contains(std::to_string(i));
  return text_of(differing != nullptr ? *differing : golden.at("hashes").as_array()[i]);
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + by.size())) text.replace(i, what.size(), by);
  return text;
}

// The same tokenizer with the split pattern of Qwen3.5.
Tokenizer with_qwen35_pattern(const std::filesystem::path& path) {
  std::string text = replaced(read_file(path), R"(?\\p{L}+|)", R"(?[\\p{L}\\p{M}]+|)");
  text = replaced(std::move(text), R"([^\\s\\p{L}\\p{N}]+)", R"([^\\s\\p{L}\\p{M}\\p{N}]+)");
  return Tokenizer::from_json(text, "qwen3.5");
}

void expect_golden(const std::filesystem::path& tokenizer_path, const std::string& golden_name) {
  const json::value golden = data(golden_name);
  const json::value strings = data("strings.json");
  const auto& texts = strings.at("strings").as_array();
  const auto& hashes = golden.at("hashes").as_array();
  const auto& ids = golden.at("ids").as_array();
  ASSERT_EQ(texts.size(), hashes.size());
  ASSERT_GE(texts.size(), 10000U);
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
  const Tokenizer qwen35 = with_qwen35_pattern(tokenizer_path);
  EXPECT_EQ(tokenizer.size(), golden.at("size").as_int64());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < texts.size() && wrong < 10; ++i) {
    const std::string text = text_of(texts[i]);
    const Ids plain = tokenizer.encode(text);
    const Ids as_text = tokenizer.encode(text, ControlTokens::kAsText);
    if (i < ids.size()) {
      EXPECT_EQ(plain, ids_of(ids[i])) << i << ": " << text;
    }
    EXPECT_EQ(hash_of(plain), text_of(hashes[i])) << i << ": " << text;
    EXPECT_EQ(hash_of(as_text), hash_in(golden, "as_text", i)) << i << ": " << text;
    EXPECT_EQ(hash_of(qwen35.encode(text)), hash_in(golden, "qwen35", i)) << i << ": " << text;
    std::string storage;
    EXPECT_EQ(tokenizer.decode(as_text, false), to_nfc(text, storage)) << i << ": " << text;
    wrong += testing::Test::HasFailure() ? 1 : 0;
  }
  for (const json::value& decode : golden.at("decodes").as_array()) {
    const Ids some = ids_of(decode.as_array()[0]);
    EXPECT_EQ(tokenizer.decode(some, false), text_of(decode.as_array()[1]));
    EXPECT_EQ(tokenizer.decode(some, true), text_of(decode.as_array()[2]));
  }
}

TEST(TokenizerGolden, SmallVocabulary) {
  expect_golden(std::filesystem::path(QWELL_TEST_DATA) / "tokenizer" / "small" / "tokenizer.json", "small.json");
}

TEST(TokenizerGolden, DemoModel) {
  expect_golden(std::filesystem::path(QWELL_SOURCE_DIR) / "models" / "demo" / "tokenizer.json", "demo.json");
}

// The released Qwen3 vocabulary is not part of the project: QWELL_REAL_TOKENIZER names its tokenizer.json or the folder of it; where it is
// not set, QWELL_REAL_FIXTURES may name a folder that has a tokenizer.json.
std::optional<std::filesystem::path> real_tokenizer() {
  for (const char* variable : {"QWELL_REAL_TOKENIZER", "QWELL_REAL_FIXTURES"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::filesystem::path path = value;
    if (std::filesystem::is_directory(path)) path /= "tokenizer.json";
    if (std::filesystem::exists(path)) return path;
  }
  return std::nullopt;
}

TEST(TokenizerGolden, RealQwen3) {
  const auto path = real_tokenizer();
  if (!path) GTEST_SKIP() << "no tokenizer.json by QWELL_REAL_TOKENIZER or in QWELL_REAL_FIXTURES";
  expect_golden(*path, "qwen3.json");
}

TEST(TokenizerGolden, RealQwen3KnownEncodings) {
  const auto path = real_tokenizer();
  if (!path) GTEST_SKIP() << "no tokenizer.json by QWELL_REAL_TOKENIZER or in QWELL_REAL_FIXTURES";
  const Tokenizer tokenizer = Tokenizer::load(*path);
  const std::vector<std::pair<std::string, Ids>> known = {
      {"Hello, world!", {9707, 11, 1879, 0}},
      {"<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
       {151644, 872, 198, 9707, 151645, 198, 151644, 77091, 198, 151667, 271, 151668, 271}},
      {"  leading", {220, 6388}},
      {"a\n\n\n b", {64, 1406, 293}},
      {"It's 12345 I'LL", {2132, 594, 220, 16, 17, 18, 19, 20, 358, 6, 4086}},
      {"e\u0301 \u00e9", {963, 3958}},
      {"你好，世界", {108386, 3837, 99489}},
      {"नमस्ते", {60096, 87244, 78368, 30484, 97, 34370}},
      {"😀👨\u200d👩", {141334, 145367, 378, 235, 145233}},
      {"\t\tx  \n y", {197, 10225, 2303, 379}},
      {"\r\n\r\nq", {871, 80}},
  };
  for (const auto& [text, ids] : known) EXPECT_EQ(tokenizer.encode(text), ids) << text;
  EXPECT_EQ(tokenizer.size(), 151669);
  EXPECT_EQ(tokenizer.id_of("<|im_end|>"), 151645);
  EXPECT_TRUE(tokenizer.is_special(151645));
  EXPECT_FALSE(tokenizer.is_special(151667));  // <think> stays in decoded text
  EXPECT_EQ(tokenizer.decode(known[1].second, true), "user\nHello\nassistant\n<think>\n\n</think>\n\n");
}

// Every code point has the class by which `tokenizers` splits text, but for those that only its newer Unicode version knows; ICU may know
// them too, then in the same way.
TEST(TokenizerGolden, CharacterClasses) {
  const json::value golden = data("classes.json");
  const std::map<std::string, CharClass> names = {
      {"L", CharClass::kLetter}, {"M", CharClass::kMark}, {"N", CharClass::kNumber}, {"S", CharClass::kSpace}};
  std::vector<CharClass> expected(0x110000, CharClass::kOther);
  for (const json::value& run : golden.at("classes").as_array()) {
    for (auto c = run.as_array()[0].as_int64(); c <= run.as_array()[1].as_int64(); ++c) {
      expected[static_cast<std::size_t>(c)] = names.at(text_of(run.as_array()[2]));
    }
  }
  expected['\r'] = expected['\n'] = CharClass::kNewline;
  std::vector<bool> newer(0x110000);
  for (const json::value& range : golden.at("newer_than_icu").as_array()) {
    for (auto c = range.as_array()[0].as_int64(); c <= range.as_array()[1].as_int64(); ++c) newer[static_cast<std::size_t>(c)] = true;
  }
  const CharClasses& classes = CharClasses::get();
  std::size_t wrong = 0;
  for (char32_t c = 0; c < 0x110000 && wrong < 10; ++c) {
    if (classes[c] == expected[c] || (newer[c] && classes[c] == CharClass::kOther)) continue;
    ADD_FAILURE() << fmt::format("U+{:04X}: class {}, wanted {}", static_cast<unsigned>(c), static_cast<int>(classes[c]),
                                 static_cast<int>(expected[c]));
    ++wrong;
  }
}

}  // namespace
}  // namespace qwell
