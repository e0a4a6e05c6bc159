#include "checkpoint/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/bits.h"
#include "base/random.h"
#include "checkpoint/support/scratch.h"

namespace qwell {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace testing_support;

// A tensor over its own bytes, which begin at an odd address.
struct Stored {
  std::string bytes = "x";
  TensorView view;

  template <class T>
  Stored(std::string name, DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    view = {std::move(name), "file", dtype, std::move(shape), as_span(bytes).subspan(1)};
  }
  Stored(const Stored&) = delete;
};

std::vector<float> read_f32(const StoredMatrix& m, Range rows, Range columns) {
  std::vector<float> out(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(columns.count));
  read_part(m, rows, columns, View(out.data(), DType::kF32, {rows.count, columns.count}));
  return out;
}

std::vector<bf16> read_bf16(const StoredMatrix& m, Range rows, Range columns) {
  std::vector<bf16> out(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(columns.count));
  read_part(m, rows, columns, View(out.data(), DType::kBf16, {rows.count, columns.count}));
  return out;
}

TEST(Elements, ConvertsEachFormatToEach) {
  constexpr int kRows = 3, kColumns = 5;
  Random random(5);
  std::vector<float> f32(kRows * kColumns);
  for (float& v : f32) v = (random.uniform() - 0.5F) * 8;
  std::vector<bf16> b16;
  std::vector<double> f64;
  std::vector<std::uint16_t> f16;
  for (const float v : f32) {
    b16.push_back(to_bf16(v));
    f64.push_back(v);
    f16.push_back(static_cast<std::uint16_t>(0x3c00 + (random.bits() & 0x3ff)));  // 1 to 2
  }
  const std::vector<std::int64_t> shape = {kRows, kColumns};
  const Stored stored[] = {{"f32", DType::kF32, shape, f32},
                           {"bf16", DType::kBf16, shape, b16},
                           {"f64", DType::kF64, shape, f64},
                           {"f16", DType::kF16, shape, f16}};
  for (const Stored& s : stored) {
    const StoredMatrix m{.tensor = &s.view, .rows = kRows, .columns = kColumns};
    const Range rows{1, 2}, columns{2, 3};
    const auto floats = read_f32(m, rows, columns);
    const auto shorts = read_bf16(m, rows, columns);
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 3; ++c) {
        const auto from = static_cast<std::size_t>((r + 1) * kColumns + c + 2);
        const auto at = static_cast<std::size_t>(r * 3 + c);
        float want = f32[from];
        if (s.view.dtype == DType::kBf16) want = to_float(b16[from]);
        if (s.view.dtype == DType::kF16) want = half_to_float(f16[from]);
        EXPECT_EQ(floats[at], want) << s.view.name;
        EXPECT_EQ(shorts[at].bits, to_bf16(want).bits) << s.view.name;
      }
    }
  }
}

TEST(Elements, EqualTypesKeepTheirBits) {
  const std::vector<std::uint16_t> bits = {0x0000, 0x8000, 0x0001, 0x7f7f, 0x80ff, 0x3f81};  // zeros, subnormals, the largest
  const Stored stored("t", DType::kBf16, {2, 3}, bits);
  const auto out = read_bf16({.tensor = &stored.view, .rows = 2, .columns = 3}, {0, 2}, {0, 3});
  EXPECT_EQ(std::memcmp(out.data(), bits.data(), sizeof(bf16) * bits.size()), 0);
}

TEST(Elements, ReadsAMatrixWithinATensor) {
  std::vector<float> values(2 * 3 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Stored stored("t", DType::kF32, {2, 3, 4}, values);
  EXPECT_EQ(read_f32({.tensor = &stored.view, .offset = 12, .rows = 3, .columns = 4}, {1, 1}, {2, 2}), (std::vector<float>{18, 19}));
  EXPECT_TRUE(read_f32({.tensor = &stored.view, .rows = 3, .columns = 4}, {3, 0}, {0, 4}).empty());
  EXPECT_TRUE(read_f32({.tensor = &stored.view, .rows = 3, .columns = 4}, {0, 3}, {4, 0}).empty());
}

// Blocks of FP8 in shapes that blocks don't divide; parts that begin and end inside of them; both dtypes of scales.
TEST(Elements, ScalesFp8BlockByBlock) {
  Random random(9);
  for (const auto& [rows, columns] : {std::pair{1, 1}, {128, 128}, {129, 127}, {300, 257}, {64, 513}}) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * columns));
    for (auto& code : codes) code = float_to_e4m3((random.uniform() - 0.5F) * 900);
    const int block_rows = (rows + 127) / 128, block_columns = (columns + 127) / 128;
    std::vector<bf16> short_scales;
    std::vector<float> scales;
    for (int b = 0; b < block_rows * block_columns; ++b) {
      short_scales.push_back(to_bf16(random.uniform() * 0.01F));
      scales.push_back(to_float(short_scales.back()));
    }
    const Stored weight("w", DType::kE4m3, {rows, columns}, codes);
    const Stored wide("w_scale_inv", DType::kF32, {block_rows, block_columns}, scales);
    const Stored narrow("w_scale_inv", DType::kBf16, {block_rows, block_columns}, short_scales);
    for (const Stored* scale : {&wide, &narrow}) {
      const StoredMatrix m{.tensor = &weight.view, .scales = &scale->view, .rows = rows, .columns = columns};
      for (int trial = 0; trial < 20; ++trial) {
        const int r0 = random.range(0, rows - 1), c0 = random.range(0, columns - 1);
        const Range part_rows{r0, random.range(1, rows - r0)}, part_columns{c0, random.range(1, columns - c0)};
        const auto floats = read_f32(m, part_rows, part_columns);
        const auto shorts = read_bf16(m, part_rows, part_columns);
        for (int r = 0; r < part_rows.count; ++r) {
          for (int c = 0; c < part_columns.count; ++c) {
            const int row = r0 + r, column = c0 + c;
            const float want = e4m3_to_float(codes[static_cast<std::size_t>(row * columns + column)]) *
                               scales[static_cast<std::size_t>(row / 128 * block_columns + column / 128)];
            const auto at = static_cast<std::size_t>(r * part_columns.count + c);
            ASSERT_EQ(floats[at], want);
            ASSERT_EQ(shorts[at].bits, to_bf16(want).bits);
          }
        }
      }
    }
  }
}

TEST(Elements, AScaleBesideAPlainWeightIsNotApplied) {
  const Stored weight("w", DType::kBf16, {1, 2}, std::vector<bf16>{to_bf16(1), to_bf16(2)});
  const Stored scale("w_scale_inv", DType::kF32, {1, 1}, std::vector<float>{8});
  EXPECT_EQ(read_f32({.tensor = &weight.view, .scales = &scale.view, .rows = 1, .columns = 2}, {0, 1}, {0, 2}), (std::vector<float>{1, 2}));
}

TEST(Elements, RefusesScalesThatDoNotFit) {
  const Stored weight("w", DType::kE4m3, {130, 3}, std::vector<std::uint8_t>(390, 0x38));
  const auto error = [&](const TensorView* scale) {
    return error_of([&] { check_readable({.tensor = &weight.view, .scales = scale, .rows = 130, .columns = 3}); });
  };
  const Stored good("s", DType::kF32, {2, 1}, std::vector<float>(2, 1));
  EXPECT_EQ(error(&good.view), "");
  EXPECT_THAT(error(nullptr), AllOf(HasSubstr("\"w\""), HasSubstr("without a scale")));
  const Stored turned("s", DType::kF32, {1, 2}, std::vector<float>(2, 1));
  EXPECT_THAT(error(&turned.view), AllOf(HasSubstr("\"s\""), HasSubstr("[1, 2]"), HasSubstr("[2, 1]")));
  const Stored flat("s", DType::kF32, {2}, std::vector<float>(2, 1));
  EXPECT_THAT(error(&flat.view), HasSubstr("[2, 1]"));
  const Stored one("s", DType::kF32, {}, std::vector<float>(1, 1));
  EXPECT_THAT(error(&one.view), HasSubstr("[2, 1]"));
  const Stored half("s", DType::kF16, {2, 1}, std::vector<std::uint16_t>(2, 0x3c00));
  EXPECT_THAT(error(&half.view), AllOf(HasSubstr("F16"), HasSubstr("BF16")));
}

TEST(Elements, RefusesWhatIsNoWeight) {
  const Stored ids("ids", DType::kI32, {2, 2}, std::vector<std::int32_t>(4));
  EXPECT_THAT(error_of([&] { check_readable({.tensor = &ids.view, .rows = 2, .columns = 2}); }),
              AllOf(HasSubstr("\"ids\""), HasSubstr("I32"), HasSubstr("BF16")));
}

TEST(Elements, RefusesWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    const Stored wide("wide", DType::kF32, {2, 2}, std::vector<float>{1, 2, 3, bad});
    const StoredMatrix m{.tensor = &wide.view, .rows = 2, .columns = 2};
    EXPECT_THAT(error_of([&] { read_f32(m, {0, 2}, {0, 2}); }), AllOf(HasSubstr("\"wide\""), HasSubstr("element 3"), HasSubstr("finite")));
    EXPECT_THAT(error_of([&] { read_bf16(m, {1, 1}, {1, 1}); }), HasSubstr("element 3"));
    EXPECT_EQ(read_f32(m, {0, 2}, {0, 1}), (std::vector<float>{1, 3}));
    const Stored narrow("narrow", DType::kBf16, {2, 2}, std::vector<bf16>{to_bf16(1), to_bf16(bad), to_bf16(1), to_bf16(1)});
    EXPECT_THAT(error_of([&] { read_bf16({.tensor = &narrow.view, .rows = 2, .columns = 2}, {0, 2}, {0, 2}); }), HasSubstr("element 1"));
  }
  const Stored large("large", DType::kF64, {1, 1}, std::vector<double>{1e200});
  EXPECT_THAT(error_of([&] { read_f32({.tensor = &large.view, .rows = 1, .columns = 1}, {0, 1}, {0, 1}); }), HasSubstr("F32"));
  const Stored code("code", DType::kE4m3, {1, 1}, std::vector<std::uint8_t>{0x7f});
  const Stored scale("scale", DType::kF32, {1, 1}, std::vector<float>{1});
  EXPECT_THAT(error_of([&] {
                read_bf16({.tensor = &code.view, .scales = &scale.view, .rows = 1, .columns = 1}, {0, 1}, {0, 1});
              }),
              HasSubstr("\"code\""));
}

}  // namespace
}  // namespace qwell
