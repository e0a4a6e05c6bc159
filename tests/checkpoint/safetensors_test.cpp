#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace testing_support;

std::string open_error(const std::string& bytes) {
  return error_of([&] { SafetensorsFile file(as_span(bytes), "file.safetensors"); });
}

TEST(Safetensors, ReadsWhatTheFormatAllows) {
  // Trailing spaces, metadata, a scalar, tensors without elements, an order of names that is not that of bytes, data that is nowhere
  // aligned.
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[3,7]},"none":{"dtype":"BF16","shape":[4,0,7],"data_offsets":[7,7]},)"
      R"("none2":{"dtype":"I64","shape":[0],"data_offsets":[0,0]},"half":{"dtype":"F16","shape":[1,2],"data_offsets":[7,11]}}   )";
  const std::string bytes = safetensors_bytes(header, 11);
  const SafetensorsFile file(as_span(bytes), "x");
  EXPECT_EQ(file.tensors().size(), 5U);
  EXPECT_EQ(file.require("a").data.size(), 4U);
  EXPECT_EQ(file.require("a").data.data(), as_span(bytes).data() + 8 + header.size() + 3);
  EXPECT_TRUE(file.require("none").data.empty());
  EXPECT_EQ(file.require("none").shape_text(), "[4, 0, 7]");
  EXPECT_EQ(file.require("half").shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(file.find("b"), nullptr);
  EXPECT_THAT(error_of([&] { file.require("b"); }), AllOf(HasSubstr("x"), HasSubstr("\"b\"")));

  const std::string empty = safetensors_bytes("{}", 0);
  EXPECT_TRUE(SafetensorsFile(as_span(empty), "x").tensors().empty());
}

struct Damage {
  std::string header;
  std::size_t data_bytes;
  std::vector<std::string> words;  // of the message
};

TEST(Safetensors, RefusesDamagedHeaders) {
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return fmt::format(R"({{"t":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  const auto two = [](std::string_view a, std::string_view b) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})", a,
                       b);
  };
  const std::vector<Damage> cases = {
      {"", 0, {"begin with '{'"}},
      {" {}", 0, {"begin with '{'"}},
      {"[]", 0, {"begin with '{'"}},
      {"{", 0, {"header"}},
      {"{} x", 0, {"header"}},
      {"{\"\xff\":1}", 0, {"header"}},
      {"{\"t\":" + std::string(50, '[') + std::string(50, ']') + "}", 0, {"header"}},
      {R"({"t":3})", 0, {"\"t\"", "object"}},
      {R"({"t":{}})", 0, {"\"t\"", "dtype"}},
      {R"({"__metadata__":3})", 0, {"__metadata__"}},
      {R"({"__metadata__":{"a":3}})", 0, {"__metadata__", "\"a\""}},
      {one("5", "[4]", "[0,4]"), 4, {"\"t\"", "dtype"}},
      {one("\"F8_E5M2\"", "[4]", "[0,4]"), 4, {"\"t\"", "F8_E5M2"}},
      {one("\"F4\"", "[4]", "[0,2]"), 2, {"\"t\"", "\"F4\""}},
      {one("\"u8\"", "[4]", "[0,4]"), 4, {"\"u8\""}},
      {one("\"U8\"", "4", "[0,4]"), 4, {"shape"}},
      {one("\"U8\"", "[-4]", "[0,4]"), 4, {"shape", "-4"}},
      {one("\"U8\"", "[4.0]", "[0,4]"), 4, {"shape"}},
      {one("\"U8\"", "[\"4\"]", "[0,4]"), 4, {"shape"}},
      {one("\"U8\"", "[18446744073709551615]", "[0,4]"), 4, {"shape", "too large"}},
      {one("\"F64\"", "[4294967296,4294967296]", "[0,0]"), 0, {"shape", "too large"}},
      {one("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, {"shape", "too large"}},
      {one("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, {"dimensions"}},
      {one("\"U8\"", "[4]", "4"), 4, {"data_offsets"}},
      {one("\"U8\"", "[4]", "[0]"), 4, {"data_offsets"}},
      {one("\"U8\"", "[4]", "[0,4,8]"), 4, {"data_offsets"}},
      {one("\"U8\"", "[4]", "[-1,3]"), 4, {"data_offsets"}},
      {one("\"U8\"", "[4]", "[4,0]"), 4, {"data_offsets", "[4, 0]"}},
      {one("\"U8\"", "[4]", "[0,5]"), 4, {"data_offsets", "[0, 5]"}},
      {one("\"U8\"", "[4]", "[0,18446744073709551615]"), 4, {"data_offsets"}},
      {one("\"U8\"", "[4]", "[18446744073709551612,18446744073709551615]"), 4, {"data_offsets"}},
      {one("\"U8\"", "[3]", "[0,4]"), 4, {"\"t\"", "4 bytes", "[3]"}},
      {one("\"F32\"", "[4]", "[0,4]"), 4, {"F32 [4] takes 16"}},
      {one("\"U8\"", "[4]", "[0,4]"), 5, {"4 of 5"}},
      {one("\"U8\"", "[4]", "[1,5]"), 5, {"\"t\"", "gap"}},
      {two("[0,4]", "[2,6]"), 8, {"\"b\"", "overlap"}},
      {two("[0,4]", "[0,4]"), 4, {"overlap"}},
      {two("[0,4]", "[5,9]"), 9, {"\"b\"", "gap"}},
      {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4,
       {"\"t\"", "twice"}},
      {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0074":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4,
       {"\"t\"", "twice"}},
      {R"({"t":{"dtype":"U8","shape":[4],"shape":[2,2],"data_offsets":[0,4]}})", 4, {"\"shape\"", "twice"}},
      {R"({"a\"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a\"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, {"twice"}},
  };
  for (const Damage& damage : cases) {
    const std::string message = open_error(safetensors_bytes(damage.header, damage.data_bytes));
    EXPECT_THAT(message, HasSubstr("file.safetensors")) << damage.header;
    for (const std::string& word : damage.words) EXPECT_THAT(message, HasSubstr(word)) << damage.header;
  }
}

TEST(Safetensors, ANameWithinAStringIsNoName) {
  const std::string header =
      R"({"__metadata__":{"a":"\"b\": 1, \"b\": 2","b":"{\"a\":"},"b:":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_EQ(open_error(safetensors_bytes(header, 1)), "");
}

TEST(Safetensors, RefusesEveryTruncationOfARealFile) {
  const std::string whole = read_file(fixture("qwen3-moe-a") / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof(header));
  std::vector<std::size_t> cuts = {0, 1, 7, 8, 9, header, header + 7, header + 8, header + 9, whole.size() - 1024, whole.size() - 1};
  Random random(3);
  for (int i = 0; i < 200; ++i) cuts.push_back(random.bits() % whole.size());
  for (const std::size_t cut : cuts) EXPECT_NE(open_error(whole.substr(0, cut)), "") << cut;
  EXPECT_NE(open_error(whole + "x"), "");
  EXPECT_EQ(open_error(whole), "");
}

TEST(Safetensors, RefusesASmallFileCutAtAnyByte) {
  const std::string whole = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]},"c":{"dtype":"U8","shape":[],"data_offsets":[34,35]}}  )",
      35);
  EXPECT_EQ(open_error(whole), "");
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_THAT(open_error(whole.substr(0, cut)), HasSubstr("file.safetensors")) << cut;
    EXPECT_NE(open_error(whole.substr(0, cut) + whole.substr(cut + 1)), "") << cut;  // one byte less in the midst
  }
}

TEST(Safetensors, RefusesLongHeadersBeforeReadingThem) {
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{100} << 20, (std::uint64_t{100} << 20) + 1, std::uint64_t{1} << 63,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += "{}";
    EXPECT_THAT(open_error(bytes), HasSubstr(fmt::format("{}", length)));
  }
}

TEST(Safetensors, RandomDamageNeverReadsBeyond) {
  const std::string whole = safetensors_bytes(
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]}})", 34);
  Random random(7);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole;
    for (int k = random.range(1, 4); k > 0; --k) bytes[random.bits() % 130] = static_cast<char>(random.bits());
    try {
      const SafetensorsFile file(as_span(bytes), "x");
      for (const auto& [name, tensor] : file.tensors()) {
        ASSERT_GE(tensor.data.data(), as_span(bytes).data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), as_span(bytes).data() + bytes.size());
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kF64, DType::kE4m3, DType::kE8m0,
                              DType::kU8,  DType::kI8,   DType::kI32, DType::kI64, DType::kBool};
  const ScratchFolder scratch;
  Random random(11);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> bytes;
    std::vector<TensorToWrite> tensors;
    const int count = random.range(0, 12);
    for (int t = 0; t < count; ++t) {
      TensorToWrite tensor;
      tensor.name = fmt::format("t{} \"\\\xC3\xA9\n.{}", t, random.range(0, 99));
      tensor.dtype = kTypes[random.bits() % std::size(kTypes)];
      std::size_t size = static_cast<std::size_t>(size_of(tensor.dtype));
      for (int d = random.range(0, 4); d > 0; --d) {
        tensor.shape.push_back(random.range(0, 5));
        size *= static_cast<std::size_t>(tensor.shape.back());
      }
      std::string& data = bytes.emplace_back(size, '\0');
      for (char& c : data) c = static_cast<char>(random.bits());
      tensors.push_back(tensor);
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) tensors[t].data = as_span(bytes[t]);
    write_safetensors(scratch / "x.safetensors", tensors);
    const SafetensorsFile file(scratch / "x.safetensors");
    EXPECT_EQ(file.tensors().size(), tensors.size());
    EXPECT_EQ(file.header().size() % 8, 0U);
    for (const TensorToWrite& t : tensors) {
      const TensorView& read = file.require(t.name);
      EXPECT_EQ(read.dtype, t.dtype);
      EXPECT_EQ(read.shape, t.shape);
      ASSERT_TRUE(std::equal(read.data.begin(), read.data.end(), t.data.begin(), t.data.end()));
    }
  }
}

TEST(Safetensors, WriterRefusesWhatNobodyCouldRead) {
  const ScratchFolder scratch;
  const std::string four(4, 'x');
  const auto error = [&](std::vector<TensorToWrite> tensors) { return error_of([&] { write_safetensors(scratch / "x", tensors); }); };
  EXPECT_THAT(error({{"a", DType::kU8, {4}, as_span(four)}, {"a", DType::kU8, {4}, as_span(four)}}),
              AllOf(HasSubstr("\"a\""), HasSubstr("twice")));
  EXPECT_THAT(error({{"a", DType::kF32, {2}, as_span(four)}}), AllOf(HasSubstr("4 bytes"), HasSubstr("takes 8")));
  EXPECT_THAT(error({{"a", DType::kU8, {-4}, as_span(four)}}), HasSubstr("[-4]"));
  EXPECT_THAT(error({{"a", DType::kU8, {std::int64_t{1} << 40, std::int64_t{1} << 40}, as_span(four)}}), HasSubstr("shape"));
  EXPECT_THAT(error({{"__metadata__", DType::kU8, {4}, as_span(four)}}), HasSubstr("__metadata__"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "x"));
}

TEST(Safetensors, NamesAFileThatIsNotThereOrNoFile) {
  const ScratchFolder scratch;
  EXPECT_THAT(error_of([&] { SafetensorsFile(scratch / "gone.safetensors"); }), HasSubstr("gone.safetensors"));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(scratch.path()); }), HasSubstr(scratch.path().string()));
  write_file(scratch / "empty.safetensors", "");
  EXPECT_THAT(error_of([&] { SafetensorsFile(scratch / "empty.safetensors"); }),
              AllOf(HasSubstr("empty.safetensors"), HasSubstr("0 bytes")));
}

}  // namespace
}  // namespace qwell
