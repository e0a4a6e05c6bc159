#include "tensor/placement.h"

#include <gtest/gtest.h>

#include "tensor/view.h"

namespace qwell {
namespace {

TEST(Placement, LeavesArePowersOfTwoThatDivide) {
  EXPECT_EQ(leaf_count(1), 1);
  EXPECT_EQ(leaf_count(8), 8);
  EXPECT_EQ(leaf_count(12), 4);
  EXPECT_EQ(leaf_count(128), 16);
  EXPECT_EQ(leaf_count(7), 1);
}

TEST(Placement, SharesTileTheUnits) {
  for (const int units : {1, 4, 12, 16, 60, 64, 128, 512}) {
    for (int ranks = 1; ranks <= leaf_count(units); ranks *= 2) {
      int next = 0;
      const Placement placement{units, ranks, 0};
      for (int rank = 0; rank < ranks; ++rank) {
        const Range share = share_of(units, rank, ranks);
        EXPECT_EQ(share.first, next);
        next = share.end();
        for (int e = share.first; e < share.end(); ++e) EXPECT_EQ(placement.rank_of(e), rank);
      }
      EXPECT_EQ(next, units);
    }
  }
  EXPECT_DEATH(share_of(12, 0, 8), "12 units");
}

TEST(View, SlicesKeepStrides) {
  float data[24];
  for (int i = 0; i < 24; ++i) data[i] = static_cast<float>(i);
  const View v(data, DType::kF32, {4, 3, 2});
  EXPECT_TRUE(v.dense());
  EXPECT_EQ(v.elements(), 24);
  EXPECT_EQ(v.rows(1, 2).as<float>()[0], 6.0F);
  EXPECT_EQ(v[2][1].as<float>()[0], 14.0F);
  EXPECT_EQ(v[2].shape_text(), "[3, 2]");
  EXPECT_DEATH(v.rows(3, 2), "rows 3");
}

}  // namespace
}  // namespace qwell
