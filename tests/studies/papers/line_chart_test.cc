#include "studies/papers/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan::papers {
namespace {

using ::testing::HasSubstr;

// The drawing area is 506 pixels wide from 64 and 282 high down to 316. On logarithmic axes from 1
// to 100 and from 0.1 to 10 the point (10, 1) is in the middle of both.
TEST(ChartSvg, PutsPointsWhereTheirLogarithmsAre) {
  const std::string svg = ChartSvg({.title = "t",
                                    .log_x = true,
                                    .log_y = true,
                                    .lines = {{"a", {{1, 0.1}, {10, 1}, {100, 10}}}}});
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,316.0 317.0,175.0 570.0,34.0\""));
  EXPECT_THAT(svg, HasSubstr(">0.1</text>"));
  EXPECT_THAT(svg, HasSubstr(">100</text>"));
}

TEST(ChartSvg, PutsPointsOnLinearAxes) {
  const std::string svg = ChartSvg({.title = "t", .lines = {{"a", {{0, 0}, {50, 5}, {100, 10}}}}});
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,316.0 317.0,175.0 570.0,34.0\""));
}

TEST(ChartSvg, EscapesNames) {
  const std::string svg = ChartSvg({.title = "a < b", .lines = {{"x & y", {{1, 1}, {2, 2}}}}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("x &amp; y"));
}

}  // namespace
}  // namespace parplan::papers
