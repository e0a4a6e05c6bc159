#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/bits.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"

namespace qwell {
namespace {

TEST(Bits, Bf16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.00390625F).bits, 0x3f80);  // half way, even below
  EXPECT_EQ(to_bf16(1.01171875F).bits, 0x3f82);  // half way, even above
  EXPECT_EQ(to_bf16(-0.0F).bits, 0x8000);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38F))));
}

TEST(Bits, E4m3RoundTripsAndRounds) {
  for (int b = 0; b < 256; ++b) {
    const float v = e4m3_to_float(static_cast<std::uint8_t>(b));
    if (std::isnan(v)) continue;
    EXPECT_EQ(float_to_e4m3(v), b) << v;
  }
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(float_to_e4m3(1e9F), 0x7e);
  EXPECT_EQ(float_to_e4m3(-460.0F), 0xfe);
  // Every value lies nearest to what it is rounded to.
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    const float v = (random.uniform() - 0.5F) * std::ldexp(1.0F, random.range(-11, 9));
    const float got = e4m3_to_float(float_to_e4m3(v));
    for (int b = 0; b < 256; ++b) {
      const float other = e4m3_to_float(static_cast<std::uint8_t>(b));
      if (std::isnan(other)) continue;
      ASSERT_LE(std::fabs(got - v), std::fabs(other - v)) << v;
    }
  }
}

TEST(Bits, SmallFormats) {
  EXPECT_EQ(e8m0_to_float(127), 1.0F);
  EXPECT_EQ(e8m0_to_float(130), 8.0F);
  EXPECT_EQ(e2m1_to_float(7), 6.0F);
  EXPECT_EQ(e2m1_to_float(9), -0.5F);
  EXPECT_EQ(half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(half_to_float(0x0001), std::ldexp(1.0F, -24));
}

TEST(Random, PhiloxKnownAnswers) {  // the known-answer vectors published with the Random123 library
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Json, RefusesWhatIsNotOneDocument) {
  EXPECT_FALSE(parse_json(""));
  EXPECT_FALSE(parse_json("{} x"));
  EXPECT_FALSE(parse_json("{\"a\":"));
  EXPECT_FALSE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_FALSE(parse_json("\"\xff\""));
  EXPECT_TRUE(parse_json(" {\"a\": [1, 2.5, null]} "));
}

TEST(Json, WriterWritesWhatReaderReads) {
  JsonWriter w;
  w.begin_object().field("a\"b\n", "\xff ok \xC3\xA9").field("n", 1.0).field("big", std::uint64_t{1} << 63).field("flag", true);
  w.key("list").begin_array().value(1).null().value(0.1).end_array().key("empty").begin_object().end_object().end_object();
  const auto parsed = parse_json(w.text());
  ASSERT_TRUE(parsed) << w.text();
  const auto& object = parsed->as_object();
  EXPECT_EQ(object.at("a\"b\n").as_string(), "\xEF\xBF\xBD ok \xC3\xA9");
  EXPECT_EQ(object.at("list").as_array().size(), 3U);
  EXPECT_EQ(object.at("list").as_array()[2].as_double(), 0.1);
}

TEST(File, WritesAndMaps) {
  const auto path = std::filesystem::path(testing::TempDir()) / "qwell_file_test";
  write_file(path, "abc");
  EXPECT_EQ(read_file(path), "abc");
  const MappedFile mapped(path);
  EXPECT_EQ(mapped.bytes().size(), 3U);
  std::filesystem::remove(path);
  EXPECT_THROW(read_file(path), Error);
  EXPECT_THROW(read_file(testing::TempDir()), Error);
}

}  // namespace
}  // namespace qwell
