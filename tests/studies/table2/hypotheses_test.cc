#include "studies/table2/hypotheses.h"

#include <cmath>

#include <gtest/gtest.h>

namespace parplan::table2 {
namespace {

TEST(RankCorrelation, IsThatOfRanksWithTiesShared) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {10, 200, 3000}), 1.0);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {3, 2, 1}), -1.0);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {5, 5, 5}), 0.0);
  // Ranks 0.5, 0.5, 2 against 0, 1, 2: 1.5 / sqrt(1.5 * 2).
  EXPECT_NEAR(RankCorrelation({1, 1, 2}, {1, 2, 3}), 1.5 / std::sqrt(3.0), 1e-12);
}

Hypothesis Scaled(double factor) {
  Hypothesis hypothesis;
  for (const PublishedRow& row : BuiltInTable().rows) {
    hypothesis.memory_mb.push_back(row.memory_mb);
    for (double& memory : hypothesis.memory_mb.back()) memory *= factor;
  }
  Judge(BuiltInTable(), hypothesis);
  return hypothesis;
}

TEST(Judge, FindsTheTableEqualToItself) {
  const Hypothesis same = Scaled(1.0);
  EXPECT_DOUBLE_EQ(same.memory_factor, 1.0);
  EXPECT_DOUBLE_EQ(same.ratio_factor, 1.0);
  EXPECT_NEAR(same.ratio_rank_correlation, 1.0, 1e-12);
}

// A common factor is an error of the memories, and none of their shape or ratios.
TEST(Judge, TellsACommonFactorFromTheShape) {
  const Hypothesis thrice = Scaled(3.0);
  EXPECT_NEAR(thrice.memory_factor, 3.0, 1e-9);
  EXPECT_NEAR(thrice.shape_factor, 1.0, 1e-9);
  EXPECT_NEAR(thrice.ratio_factor, 1.0, 1e-9);
  // 48 of 84 numbers.
  EXPECT_NEAR(thrice.total_factor, std::pow(3.0, 48.0 / 84.0), 1e-9);
  EXPECT_NEAR(Scaled(1.0 / 3.0).memory_factor, 3.0, 1e-9);
}

TEST(YardstickOf, HasOneNumberForEachModel) {
  const Hypothesis yardstick = YardstickOf(BuiltInTable());
  for (size_t row = 0; row < BuiltInTable().rows.size(); ++row) {
    for (const double memory : yardstick.memory_mb[row]) {
      EXPECT_EQ(memory, yardstick.memory_mb[row].front());
    }
    // BERT-Large: 128.05 148.70 148.81 158.90 177.01 185.05 199.81 216.06 219.22 331.63 331.64
    // 335.73.
    if (BuiltInTable().rows[row].model == "BERT-Large") {
      EXPECT_DOUBLE_EQ(yardstick.memory_mb[row].front(), 0.5 * (185.05 + 199.81));
    }
  }
  EXPECT_DOUBLE_EQ(yardstick.ratio_rank_correlation, 0.0);
}

// No redundancy counts as 1 MB.
TEST(Judge, TakesMemoriesBelowOneMegabyteAsOne) {
  Hypothesis none = Scaled(0.0);
  EXPECT_TRUE(std::isfinite(none.memory_factor));
  Hypothesis one;
  for (size_t row = 0; row < BuiltInTable().rows.size(); ++row) {
    one.memory_mb.push_back({1.0, 1.0, 1.0, 1.0});
  }
  Judge(BuiltInTable(), one);
  EXPECT_DOUBLE_EQ(none.memory_factor, one.memory_factor);
}

}  // namespace
}  // namespace parplan::table2
