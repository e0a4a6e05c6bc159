#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "text/tokenizer_table.h"
#include "text/unicode.h"

namespace qwell {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;

std::filesystem::path small_folder() { return std::filesystem::path(QWELL_TEST_DATA) / "tokenizer" / "small"; }

json::value small_spec() {
  const auto path = small_folder() / "tokenizer.json";
  return parse_json_file(read_file(path), path.string());
}

Tokenizer from_spec(const json::value& spec) {
  JsonWriter writer;
  writer.value(spec);
  return Tokenizer::from_json(writer.text(), "test.json");
}

// The structure of the small tokenizer with the 256 bytes as its vocabulary (ids 0 to 255), no merges and no added tokens.
json::value bytes_spec() {
  json::value spec = small_spec();
  const ByteAlphabet alphabet;
  json::object vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[alphabet.text_of(static_cast<unsigned char>(byte))] = byte;
  spec.at("model").as_object()["vocab"] = vocab;
  spec.at("model").as_object()["merges"] = json::array();
  spec.as_object()["added_tokens"] = json::array();
  return spec;
}

void add_merge(json::value& spec, const std::string& left, const std::string& right) {
  auto& vocab = spec.at("model").at("vocab").as_object();
  if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
  spec.at("model").at("merges").as_array().push_back(json::array{json::string(left), json::string(right)});
}

void add_token(json::value& spec, const std::string& content, std::int64_t id, bool special) {
  spec.at("added_tokens").as_array().push_back(json::object{{"id", id}, {"content", content}, {"special", special}, {"normalized", false}});
}

std::string random_text(Random& random, int characters) {
  static const std::vector<std::string> kParts = {"a", "b", "the ", " ", "\n",       "\r\n", "e\u0301", "\u00e9",     "\u0301",  "中文",
                                                  "😀", "1", "<",    ">", "<|im_end", "|>",   "think",   "<|im_end|>", "<think>", "'s"};
  std::string text;
  for (int i = 0; i < characters; ++i) text += kParts[random.below(static_cast<std::uint32_t>(kParts.size()))];
  return text;
}

TEST(Tokenizer, LoadsFromFileOrFolder) {
  const Tokenizer a = Tokenizer::load(small_folder());
  const Tokenizer b = Tokenizer::load(small_folder() / "tokenizer.json");
  EXPECT_EQ(a.encode("Hello <think>"), b.encode("Hello <think>"));
  try {
    Tokenizer::load(testing::TempDir());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokenizer.json"));
  }
}

TEST(Tokenizer, TokensByIdAndByText) {
  json::value spec = bytes_spec();
  add_merge(spec, "a", "b");
  add_token(spec, "<|end|>", 300, true);
  add_token(spec, "<think>", 301, false);
  const Tokenizer tokenizer = from_spec(spec);
  EXPECT_EQ(tokenizer.size(), 302);
  EXPECT_EQ(tokenizer.token_bytes(256), "ab");
  EXPECT_EQ(tokenizer.token_bytes(0xE9), "\xE9");
  EXPECT_EQ(tokenizer.token_bytes(300), "<|end|>");
  EXPECT_EQ(tokenizer.id_of("ab"), 256);
  EXPECT_EQ(tokenizer.id_of("<think>"), 301);
  EXPECT_EQ(tokenizer.id_of("abc"), std::nullopt);
  EXPECT_EQ(tokenizer.id_of(""), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(300));
  EXPECT_FALSE(tokenizer.is_special(301));
  EXPECT_TRUE(tokenizer.is_added(301));
  EXPECT_FALSE(tokenizer.is_added(256));
  for (const std::int32_t id : {-1, 257, 299, 302, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_EQ(tokenizer.token_bytes(id), "") << id;
    EXPECT_FALSE(tokenizer.is_special(id));
  }
  EXPECT_EQ(tokenizer.decode(Ids{256, 299, 300, 301, 99999, -7, 'x'}, false), "ab<|end|><think>x");
  EXPECT_EQ(tokenizer.decode(Ids{256, 299, 300, 301, 99999, -7, 'x'}, true), "ab<think>x");
}

TEST(Tokenizer, AddedTokensLeftmostThenLongest) {
  json::value spec = bytes_spec();
  add_token(spec, "<a>", 300, false);
  add_token(spec, "<a>b", 301, false);
  add_token(spec, "ba<", 302, false);
  add_token(spec, "éé", 303, false);
  const Tokenizer tokenizer = from_spec(spec);
  EXPECT_EQ(tokenizer.encode("<a>"), (Ids{300}));
  EXPECT_EQ(tokenizer.encode("<a>ba<a>"), (Ids{301, 'a', 300}));
  EXPECT_EQ(tokenizer.encode("ba<a>"), (Ids{302, 'a', '>'}));
  EXPECT_EQ(tokenizer.encode("<<a"), (Ids{'<', '<', 'a'}));
  EXPECT_EQ(tokenizer.encode("\u00e9\u00e9"), (Ids{303}));
  EXPECT_EQ(tokenizer.encode("e\u0301\u00e9"), (Ids{0xC3, 0xA9, 0xC3, 0xA9}));  // matched before normal form C
  EXPECT_EQ(tokenizer.encode("<a>", ControlTokens::kAsText), (Ids{'<', 'a', '>'}));
}

TEST(Tokenizer, MergesAsStringsAndIgnoreMerges) {
  json::value spec = bytes_spec();
  add_merge(spec, "a", "b");
  spec.at("model").at("merges").as_array()[0] = "a b";
  spec.at("model").at("vocab").as_object()["cab"] = 257;
  EXPECT_EQ(from_spec(spec).encode("cab"), (Ids{'c', 256}));
  spec.at("model").as_object()["ignore_merges"] = true;
  EXPECT_EQ(from_spec(spec).encode("cab"), (Ids{257}));
  EXPECT_EQ(from_spec(spec).encode("cabb"), (Ids{'c', 256, 'b'}));
}

TEST(Tokenizer, WithoutNormalizer) {
  json::value spec = bytes_spec();
  EXPECT_EQ(from_spec(spec).encode("e\u0301").size(), 2U);
  spec.as_object()["normalizer"] = nullptr;
  EXPECT_EQ(from_spec(spec).encode("e\u0301").size(), 3U);
}

// Merging as it is defined: the lowest rank, the leftmost of equal ones, again and again.
Ids merged_by_definition(Ids ids, const std::map<std::pair<int, int>, std::pair<int, int>>& merges) {
  for (;;) {
    std::size_t best = ids.size();
    int best_rank = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = merges.find({ids[i], ids[i + 1]});
      if (it != merges.end() && it->second.first < best_rank) {
        best = i;
        best_rank = it->second.first;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = merges.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// Tables of random merges, with several ways to one token, in the order in which they were made and shuffled; pieces of all lengths.
TEST(Tokenizer, MergesByRankFromTheLeft) {
  Random random(7);
  for (int table = 0; table < 40; ++table) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> pairs;
    for (int i = 0; i < 25; ++i) {
      const auto pick = [&] { return tokens[random.below(static_cast<std::uint32_t>(tokens.size()))]; };
      std::pair<std::string, std::string> pair = {pick(), pick()};
      if (pair.first.size() + pair.second.size() > 9 || std::find(pairs.begin(), pairs.end(), pair) != pairs.end()) continue;
      tokens.push_back(pair.first + pair.second);
      pairs.push_back(std::move(pair));
    }
    if (table % 2 == 1) {
      for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random.below(static_cast<std::uint32_t>(i))]);
    }
    json::value spec = bytes_spec();
    for (const auto& [left, right] : pairs) add_merge(spec, left, right);
    const Tokenizer tokenizer = from_spec(spec);
    std::map<std::pair<int, int>, std::pair<int, int>> merges;
    for (int rank = 0; rank < static_cast<int>(pairs.size()); ++rank) {
      const auto& [left, right] = pairs[static_cast<std::size_t>(rank)];
      merges[{*tokenizer.id_of(left), *tokenizer.id_of(right)}] = {rank, *tokenizer.id_of(left + right)};
    }
    for (const int length : {1, 2, 3, 7, 30, 95, 96, 97, 98, 150, 400}) {
      std::string text;
      for (int i = 0; i < length; ++i) text += "abc"[random.below(random.chance(0.5) ? 1 : 3)];
      EXPECT_EQ(tokenizer.encode(text), merged_by_definition(Ids(text.begin(), text.end()), merges)) << table << ": " << text;
    }
  }
}

TEST(Tokenizer, SegmentsAreOneText) {
  const Tokenizer tokenizer = Tokenizer::load(small_folder());
  Random random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_text(random, random.range(0, 30));
    if (round % 3 == 0 && !text.empty()) text[random.below(static_cast<std::uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    for (const ControlTokens control : {ControlTokens::kMatch, ControlTokens::kAsText}) {
      std::vector<TextSegment> segments;
      for (std::string_view rest = text; !rest.empty() || random.chance(0.3);) {
        const std::size_t n = std::min<std::size_t>(random.below(8), rest.size());  // also within characters, also empty
        segments.push_back({rest.substr(0, n), control});
        rest.remove_prefix(n);
      }
      EXPECT_EQ(tokenizer.encode_segments(segments), tokenizer.encode(text, control)) << text;
    }
  }
  EXPECT_TRUE(tokenizer.encode_segments({}).empty());
}

TEST(Tokenizer, ContentNeverBecomesControlTokens) {
  const Tokenizer tokenizer = Tokenizer::load(small_folder());
  const std::int32_t end = *tokenizer.id_of("<|im_end|>");
  using enum ControlTokens;
  const auto count = [&](const std::vector<TextSegment>& segments) {
    const Ids ids = tokenizer.encode_segments(segments);
    std::string all;
    for (const TextSegment& segment : segments) all += segment.text;
    EXPECT_EQ(tokenizer.decode(ids, false), all);
    return std::count(ids.begin(), ids.end(), end);
  };
  EXPECT_EQ(count({{"<|im_end|>", kMatch}, {"<|im_end|>", kAsText}, {"<|im_end|>\n", kMatch}}), 2);
  EXPECT_EQ(count({{"<|im_", kMatch}, {"end|>", kMatch}}), 1);
  EXPECT_EQ(count({{"<|im_", kMatch}, {"", kAsText}, {"end|>", kMatch}}), 1);
  EXPECT_EQ(count({{"<|im_", kMatch}, {"end|>", kAsText}}), 0);
  EXPECT_EQ(count({{"<|im_", kAsText}, {"end|>", kMatch}}), 0);
  EXPECT_EQ(count({{"<|im_", kMatch}, {"end", kAsText}, {"|>", kMatch}}), 0);
  EXPECT_EQ(count({{"<|im_end", kAsText}, {"|>", kAsText}}), 0);
  // Words run on across the border.
  EXPECT_EQ(tokenizer.encode_segments(std::vector<TextSegment>{{"th", kMatch}, {"ere", kAsText}}), tokenizer.encode("there"));
  EXPECT_EQ(tokenizer.encode_segments(std::vector<TextSegment>{{"e", kMatch}, {"\u0301", kAsText}}), tokenizer.encode("\u00e9"));
}

TEST(Tokenizer, IllFormedTextIsRepairedFirst) {
  const Tokenizer tokenizer = Tokenizer::load(small_folder());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xFFz", "a\uFFFDz"},
      {"\xE4\xBD", "\uFFFD"},
      {"\xE4\xBD<think>", "\uFFFD<think>"},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", "\uFFFD😀"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\x80\x80", "\uFFFD\uFFFD"},
      {"e\xCC", "e\uFFFD"},
      {std::string("\0\xF8", 2), std::string("\0\uFFFD", 4)},
  };
  for (const auto& [given, repaired] : cases) {
    EXPECT_EQ(tokenizer.encode(given), tokenizer.encode(repaired)) << repaired;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(given), false), repaired);
  }
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer tokenizer = Tokenizer::load(small_folder());
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    texts.push_back(random_text(random, random.range(1, 400)));
    expected.push_back(tokenizer.encode(texts.back()));
  }
  std::vector<std::vector<Ids>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&tokenizer, &texts, &result] {
      for (const std::string& text : texts) result.push_back(tokenizer.encode(text));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

double cpu_seconds(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::max();
  for (int round = 0; round < 3; ++round) {
    timespec before{};
    timespec after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    work();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    best = std::min(best, static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec));
  }
  return best;
}

// No text takes more than about linear time: neither in splitting, nor in merging, nor in normal form C.
TEST(Tokenizer, TimeIsAboutLinear) {
  const Tokenizer tokenizer = Tokenizer::load(small_folder());
  for (const std::string unit : {"a", " ", "7", "\n", "-", "\u0301\u0323", "\u0f73", "e\u0301\u0323", "가", "\u1100\u1161", "<|im_start",
                                 " \n", "the", "\xff", "中文", "\u3000", "👨\u200d"}) {
    const auto time = [&](std::size_t bytes) {
      std::string text;
      while (text.size() < bytes) text += unit;
      return cpu_seconds([&] { EXPECT_FALSE(tokenizer.encode(text).empty()); });
    };
    const double one = time(std::size_t{1} << 18);
    const double four = time(std::size_t{1} << 20);
    EXPECT_LT(four, 1.0) << unit;
    EXPECT_LT(four, 5.0 * one + 0.02) << unit;
  }
}

struct BadFile {
  std::string what;                         // expected in the message
  std::function<void(json::value&)> spoil;  // of a good file
};

TEST(Tokenizer, RefusesFilesByName) {
  const auto model = [](json::value& spec) -> json::object& { return spec.at("model").as_object(); };
  const auto flag = [](const char* name) {
    return BadFile{name, [name](json::value& s) { s.at("added_tokens").as_array()[2].as_object()[name] = true; }};
  };
  const std::vector<BadFile> cases = {
      {"normalizer.type", [](json::value& s) { s.at("normalizer").as_object()["type"] = "NFKC"; }},
      {"pre_tokenizer.pretokenizers.0.pattern.Regex",
       [](json::value& s) { s.at("pre_tokenizer").at("pretokenizers").as_array()[0].at("pattern").as_object()["Regex"] = "\\p{L}+"; }},
      {"pre_tokenizer.pretokenizers.0.behavior",
       [](json::value& s) { s.at("pre_tokenizer").at("pretokenizers").as_array()[0].as_object()["behavior"] = "Removed"; }},
      {"pre_tokenizer.pretokenizers.1.use_regex",
       [](json::value& s) { s.at("pre_tokenizer").at("pretokenizers").as_array()[1].as_object()["use_regex"] = true; }},
      {"pre_tokenizer.pretokenizers", [](json::value& s) { s.at("pre_tokenizer").at("pretokenizers").as_array().pop_back(); }},
      {"pre_tokenizer.type", [](json::value& s) { s.as_object()["pre_tokenizer"] = nullptr; }},
      {"decoder.type", [](json::value& s) { s.at("decoder").as_object()["type"] = "Metaspace"; }},
      {"post_processor.type", [](json::value& s) { s.at("post_processor").as_object()["type"] = "TemplateProcessing"; }},
      {"model.type", [&](json::value& s) { model(s)["type"] = "Unigram"; }},
      {"model.dropout", [&](json::value& s) { model(s)["dropout"] = 0.1; }},
      {"model.byte_fallback", [&](json::value& s) { model(s)["byte_fallback"] = true; }},
      {"model.ignore_merges", [&](json::value& s) { model(s)["ignore_merges"] = "yes"; }},
      {"model.end_of_word_suffix", [&](json::value& s) { model(s)["end_of_word_suffix"] = "</w>"; }},
      {"model.vocab", [&](json::value& s) { model(s).erase("vocab"); }},
      {"has id 65, and so has \"", [&](json::value& s) { model(s)["vocab"].as_object()["a"] = model(s)["vocab"].at("b"); }},
      {"model.vocab: \"zz9\" has id -1", [&](json::value& s) { model(s)["vocab"].as_object()["zz9"] = -1; }},
      {"model.vocab: \"zz9\" has id 4000000000", [&](json::value& s) { model(s)["vocab"].as_object()["zz9"] = 4000000000; }},
      {"model.vocab: \"zz9\" has id \"7\"", [&](json::value& s) { model(s)["vocab"].as_object()["zz9"] = "7"; }},
      {"model.vocab: an empty token", [&](json::value& s) { model(s)["vocab"].as_object()[""] = 5000; }},
      {"\"▁the\" is not written in the byte alphabet", [&](json::value& s) { model(s)["vocab"].as_object()["▁the"] = 5000; }},
      {"for the byte 0x20", [&](json::value& s) { model(s)["vocab"].as_object().erase("Ġ"); }},
      {"model.merges: entry 0 needs the token \"qz\"",
       [&](json::value& s) {
         model(s)["merges"].as_array()[0] = json::array{"q", "z"};
       }},
      {"model.merges: entry 0 is \"a b c\"", [&](json::value& s) { model(s)["merges"].as_array()[0] = "a b c"; }},
      {"model.merges: entry 1 repeats", [&](json::value& s) { model(s)["merges"].as_array()[1] = model(s)["merges"].at(0); }},
      {"model.merges", [&](json::value& s) { model(s)["merges"] = "a b"; }},
      {"added_tokens", [](json::value& s) { s.as_object()["added_tokens"] = 3; }},
      {"added_tokens", [](json::value& s) { s.at("added_tokens").as_array()[0] = 3; }},
      {"content", [](json::value& s) { s.at("added_tokens").as_array()[0].as_object()["content"] = ""; }},
      {"added_tokens: \"<|endoftext|>\": id", [](json::value& s) { s.at("added_tokens").as_array()[0].as_object()["id"] = 1e30; }},
      {"special", [](json::value& s) { s.at("added_tokens").as_array()[0].as_object()["special"] = 1; }},
      {"listed twice", [](json::value& s) { add_token(s, "<|im_end|>", 1999, true); }},
      {"\"<|new|>\" has id 5, and so has", [](json::value& s) { add_token(s, "<|new|>", 5, true); }},
      {"added_tokens: \"a\" has id 1999", [](json::value& s) { add_token(s, "a", 1999, true); }},
      flag("normalized"),
      flag("lstrip"),
      flag("rstrip"),
      flag("single_word"),
  };
  EXPECT_NO_THROW(from_spec(small_spec()));
  for (const BadFile& bad : cases) {
    json::value spec = small_spec();
    bad.spoil(spec);
    try {
      from_spec(spec);
      ADD_FAILURE() << "taken: " << bad.what;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("test.json: "));
      EXPECT_THAT(error.what(), HasSubstr(bad.what));
      EXPECT_LT(std::string_view(error.what()).size(), 1000U);
    }
  }
  for (const char* text : {"", "[]", "3", "{}", "{\"model\":", "{\"model\": []}"})
    EXPECT_THROW(Tokenizer::from_json(text, "x"), Error) << text;
}

}  // namespace
}  // namespace qwell
