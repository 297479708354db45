#include "studies/accuracy/scatter_chart.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/clients/report/page_form.h"

namespace parplan::accuracy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

TEST(LogTicks, AreRoundAndFew) {
  EXPECT_THAT(LogTicks(0.9, 11.0, 6), ElementsAre(1.0, 2.0, 5.0, 10.0));
  EXPECT_THAT(LogTicks(0.5e-3, 20.0, 6),
              ElementsAre(1e-3, testing::DoubleEq(1e-2), 0.1, 1.0, 10.0));
  for (double low = 1e-6; low < 1e12; low *= 3.7) {
    for (double ratio = 4.0; ratio < 1e9; ratio *= 5.1) {
      const std::vector<double> ticks = LogTicks(low, low * ratio, 6);
      EXPECT_THAT(ticks.size(), AllOf(Ge(1u), Le(6u))) << low << " " << ratio;
      EXPECT_THAT(ticks, Each(AllOf(Ge(low), Le(low * ratio))));
    }
  }
}

TEST(ScatterChart, DrawsADotForEachPointThatCanBe) {
  const std::string chart =
      ScatterChart("times",
                   {{1.0, 1.1, false, "a <b>"},
                    {10.0, 9.0, true, "fitted"},
                    {0.0, 1.0, false, "no logarithm"},
                    {1.0, std::numeric_limits<double>::infinity(), false, "too far"}},
                   report::AxisUnit::kSeconds);
  EXPECT_EQ(CountOf(chart, "<circle"), 2);
  EXPECT_EQ(CountOf(chart, "dot fit"), 1);
  EXPECT_THAT(chart, HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(chart, Not(HasSubstr("nan")));
  EXPECT_THAT(chart, Not(HasSubstr("inf")));
  EXPECT_EQ(FaultOfForm("<!DOCTYPE html>\n" + chart), "");
}

TEST(ScatterChart, IsNothingWithoutPoints) {
  EXPECT_EQ(ScatterChart("times", {}, report::AxisUnit::kSeconds), "");
  EXPECT_EQ(ScatterChart("times", {{0.0, 1.0, false, ""}}, report::AxisUnit::kBytes), "");
}

TEST(ScatterChart, GivesOnePointRoom) {
  const std::string chart =
      ScatterChart("sizes", {{1e9, 1e9, false, "one"}}, report::AxisUnit::kBytes);
  EXPECT_THAT(chart, HasSubstr("cx=\"50.00%\""));
  EXPECT_THAT(chart, HasSubstr(">1 GB<"));
}

}  // namespace
}  // namespace parplan::accuracy
