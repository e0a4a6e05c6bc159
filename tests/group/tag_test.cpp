#include "group/cpu/tag.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "group/cpu/exchange.h"

namespace qwell::group {
namespace {

std::uint64_t tag(unsigned incarnation, std::uint64_t step, unsigned exchange, Signal signal = Signal::kDispatch) {
  return Tag{static_cast<std::uint16_t>(incarnation), static_cast<std::uint32_t>(step), static_cast<std::uint16_t>(exchange), signal}
      .pack();
}

TEST(Tag, PacksWithoutLoss) {
  const Tag t = Tag::unpack(tag(65535, 0xfffffffe, 4095, Signal::kCombine));
  EXPECT_EQ(t.incarnation, 65535);
  EXPECT_EQ(t.step, 0xfffffffeU);
  EXPECT_EQ(t.exchange, 4095);
  EXPECT_EQ(t.signal, Signal::kCombine);
}

TEST(Tag, OlderWaitsEqualGoesAllElseFails) {
  const std::uint64_t expected = tag(3, 100, 7);
  EXPECT_EQ(compare(expected, expected), TagOrder::kEqual);
  for (const std::uint64_t older :
       {std::uint64_t{0}, tag(3, 100, 6), tag(3, 100, 6, Signal::kCombine), tag(3, 99, 4000), tag(1, 5000, 9), tag(2, 100, 7)}) {
    EXPECT_EQ(compare(older, expected), TagOrder::kOlder) << tag_text(older);
  }
  for (const std::uint64_t other : {tag(3, 100, 8), tag(3, 101, 0), tag(4, 1, 0), tag(5, 100, 7), tag(3, 100, 7, Signal::kCombine)}) {
    EXPECT_EQ(compare(other, expected), TagOrder::kOther) << tag_text(other);
  }
}

TEST(Tag, FieldsWrapAround) {
  EXPECT_EQ(compare(tag(0, 0xffffffff, 9), tag(0, std::uint64_t{1} << 32, 0)), TagOrder::kOlder);
  EXPECT_EQ(compare(tag(0, std::uint64_t{1} << 32, 0), tag(0, 0xffffffff, 9)), TagOrder::kOther);
  EXPECT_EQ(compare(tag(65535, 77, 0), tag(65536, 2, 0)), TagOrder::kOlder);
  EXPECT_TRUE(step_reached(tag(1, 0x100000001, 0), tag(1, 0xffffffff, 0)));
}

TEST(Tag, ReachedMeansSameIncarnationAndStepOrLater) {
  EXPECT_TRUE(step_reached(tag(1, 5, 0), tag(1, 5, 0)));
  EXPECT_TRUE(step_reached(tag(1, 6, 0), tag(1, 5, 0)));
  EXPECT_FALSE(step_reached(tag(1, 4, 0), tag(1, 5, 0)));
  EXPECT_FALSE(step_reached(tag(2, 5, 0), tag(1, 5, 0)));
  EXPECT_FALSE(step_reached(0, tag(0, 0, 0)));
}

TEST(TreeSum, IsBalancedAndAddsZeros) {
  constexpr int kColumns = 131;
  std::vector<std::vector<float>> terms(8, std::vector<float>(kColumns));
  for (std::size_t t = 0; t < 8; ++t) {
    for (std::size_t i = 0; i < kColumns; ++i)
      terms[t][i] = std::ldexp(1.0F + static_cast<float>(i * 7 + t) / 64, static_cast<int>((t * 5 + i) % 23));
  }
  std::vector<const float*> pointers;
  for (const auto& t : terms) pointers.push_back(t.data());
  std::vector<float> sum(kColumns);
  tree_sum(pointers.data(), 8, kColumns, sum.data());
  for (std::size_t i = 0; i < kColumns; ++i) {
    EXPECT_EQ(sum[i],
              ((terms[0][i] + terms[1][i]) + (terms[2][i] + terms[3][i])) + ((terms[4][i] + terms[5][i]) + (terms[6][i] + terms[7][i])));
  }
  // What was not visited is +0.0 and is added: -0.0 becomes +0.0, as in the tree of one rank.
  const float negative = -0.0F, zero = 0.0F;
  const float* two[] = {&negative, &zero};
  float out = 1;
  tree_sum(two, 2, 1, &out);
  EXPECT_FALSE(std::signbit(out));
  tree_sum(two, 1, 1, &out);
  EXPECT_TRUE(std::signbit(out));
}

}  // namespace
}  // namespace qwell::group
