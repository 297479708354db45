#include "planner/cost/measured_table.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace parplan {
namespace {

LogLogCurve CurveOf(const std::vector<std::pair<double, double>>& milliseconds) {
  std::vector<LogLogCurve::Point> points;
  for (const auto& [size, time] : milliseconds) {
    points.push_back({size, Seconds::Milliseconds(time)});
  }
  return LogLogCurve(points);
}

TEST(LogLogCurve, GivesItsPointsBackExactly) {
  const LogLogCurve curve = CurveOf({{1, 3}, {3, 7.7}, {7, 13.1}});
  for (const LogLogCurve::Point& point : curve.points()) {
    EXPECT_EQ(curve.At(point.size), point.duration);
  }
}

TEST(LogLogCurve, IsExactWhereTimeIsAPowerOfTheSize) {
  // 2 size^1.5
  const LogLogCurve curve = CurveOf({{1, 2}, {4, 16}, {16, 128}});
  EXPECT_NEAR(curve.At(2.25).milliseconds(), 2.0 * 3.375, 1e-12);
  EXPECT_NEAR(curve.At(9).milliseconds(), 2.0 * 27.0, 1e-12);
}

TEST(LogLogCurve, GoesOnAtTheCostPerUnitAboveItsLastPoint) {
  // 1 ms + 2 ms per unit.
  EXPECT_NEAR(CurveOf({{1, 3}, {4, 9}}).At(8).milliseconds(), 17.0, 1e-12);
  EXPECT_NEAR(CurveOf({{1, 3}, {2, 5}, {3, 7}, {4, 9}}).At(100).milliseconds(), 201.0, 1e-9);
}

TEST(LogLogCurve, FitsTheCostPerUnitToPointsDownToAQuarterOfTheLast) {
  // Through (8, 17): slopes 2 over 2, 2.25 over 4, 2 over 6. The points at 1 and 1.5
  // are small kernels and have no say.
  const double slope = (2 * 4.0 + 4 * 9.0 + 6 * 12.0) / (4 + 16 + 36);
  const LogLogCurve curve = CurveOf({{1, 4.9}, {1.5, 4.95}, {2, 5}, {4, 8}, {6, 13}, {8, 17}});
  EXPECT_NEAR(curve.At(10).milliseconds(), 17.0 + 2.0 * slope, 1e-12);
}

TEST(LogLogCurve, NeverCostsMorePerUnitAboveThanItsLastPoint) {
  // The line through the points meets zero at size 3.
  EXPECT_NEAR(CurveOf({{4, 2}, {5, 4}}).At(10).milliseconds(), 8.0, 1e-12);
}

TEST(LogLogCurve, IsInProportionWherePointsShowNoCostPerUnit) {
  EXPECT_NEAR(CurveOf({{4, 2}, {8, 2}}).At(16).milliseconds(), 4.0, 1e-12);
  EXPECT_NEAR(CurveOf({{4, 2}}).At(16).milliseconds(), 8.0, 1e-12);
  EXPECT_NEAR(CurveOf({{4, 2}}).At(1).milliseconds(), 0.5, 1e-12);
}

TEST(LogLogCurve, KeepsTheFixedCostBelowItsFirstPoint) {
  EXPECT_NEAR(CurveOf({{1, 3}, {4, 9}}).At(0.5).milliseconds(), 2.0, 1e-12);
  // Never faster per unit than the first point: here the line meets zero at 0.5.
  EXPECT_NEAR(CurveOf({{1, 1}, {2, 3}}).At(0.5).milliseconds(), 0.5, 1e-12);
  EXPECT_EQ(CurveOf({{1, 3}, {4, 9}}).At(0), Seconds());
}

TEST(Between, IsEachCurveAtItsEndAndTheGeometricMeanInTheMiddle) {
  const LogLogCurve a = CurveOf({{1, 2}, {4, 8}});
  const LogLogCurve b = CurveOf({{1, 1}, {2, 2}, {4, 4}});
  for (const double size : {0.5, 1.0, 1.7, 2.0, 3.0, 4.0}) {
    EXPECT_NEAR(Between(a, b, 0.0).At(size) / a.At(size), 1.0, 1e-12);
    EXPECT_NEAR(Between(a, b, 1.0).At(size) / b.At(size), 1.0, 1e-12);
    EXPECT_NEAR(Between(a, b, 0.5).At(size).value(),
                std::sqrt(a.At(size).value() * b.At(size).value()), 1e-15);
  }
}

// A ragged set of points: rows of work with micro-batches of their own. Times are
// alpha-beta with so much noise, as a factor.
std::vector<TimeTable::Point> RandomPoints(std::mt19937& random, double noise) {
  std::uniform_real_distribution<double> share(0.0, 1.0);
  std::vector<TimeTable::Point> points;
  const double fixed = share(random) * 4.0;
  for (const double work : {1.0, 2.5, 4.0, 9.0}) {
    if (share(random) < 0.25 && !points.empty()) continue;
    std::set<int> sizes = {1};
    for (int i = 0; i < 4; ++i) sizes.insert(1 + static_cast<int>(share(random) * 15.0));
    for (const int size : sizes) {
      const double factor = 1.0 + noise * (share(random) - 0.5);
      points.push_back(
          {work, static_cast<double>(size), Seconds::Milliseconds((fixed + work * size) * factor)});
    }
  }
  std::shuffle(points.begin(), points.end(), random);
  return points;
}

bool Contradicted(const TimeTable::Point& point, const std::vector<TimeTable::Point>& points) {
  return std::any_of(points.begin(), points.end(), [&](const TimeTable::Point& other) {
    const bool less = other.work_per_sample <= point.work_per_sample &&
                      other.micro_batch_size <= point.micro_batch_size;
    const bool more = other.work_per_sample >= point.work_per_sample &&
                      other.micro_batch_size >= point.micro_batch_size;
    return (less && other.duration > point.duration) || (more && other.duration < point.duration);
  });
}

TEST(TimeTable, GivesBackEveryPointThatNoOtherContradicts) {
  std::mt19937 random(1);
  int kept = 0;
  int contradicted = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<TimeTable::Point> points = RandomPoints(random, round % 2 == 0 ? 0.0 : 0.8);
    const TimeTable table(points);
    EXPECT_EQ(table.raw_points().size(), points.size());
    for (const TimeTable::Point& point : points) {
      if (Contradicted(point, points)) {
        ++contradicted;
        continue;
      }
      ++kept;
      EXPECT_EQ(table.AtWork(point.work_per_sample).At(point.micro_batch_size), point.duration);
    }
  }
  EXPECT_GT(kept, 500);
  EXPECT_GT(contradicted, 50);
}

TEST(TimeTable, NeverFallsAsWorkOrMicroBatchGrowHoweverNoisy) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const TimeTable table(RandomPoints(random, 0.8));
    std::vector<Seconds> before;
    for (const double work : {0.3, 0.9, 1.0, 1.9, 2.5, 3.0, 4.0, 8.0, 9.0, 12.0, 40.0}) {
      const LogLogCurve curve = table.AtWork(work);
      std::vector<Seconds> row;
      for (double size = 0.25; size < 40.0; size *= 1.23) {
        row.push_back(curve.At(size));
        EXPECT_GT(row.back(), Seconds());
        if (row.size() > 1) {
          EXPECT_LE(row[row.size() - 2], row.back());
        }
        // Rounding of the two logarithms aside.
        if (!before.empty()) {
          EXPECT_LE(before[row.size() - 1].value(), row.back().value() * (1.0 + 1e-12))
              << "work " << work << ", micro-batch " << size;
        }
      }
      before = std::move(row);
    }
  }
}

TEST(TimeTable, LiesBetweenTheNeighbours) {
  const TimeTable table({{1, 1, Seconds::Of(2)},
                         {1, 4, Seconds::Of(5)},
                         {3, 1, Seconds::Of(4)},
                         {3, 4, Seconds::Of(13)}});
  EXPECT_NEAR(table.AtWork(std::sqrt(3.0)).At(2).value(), std::pow(2.0 * 5.0 * 4.0 * 13.0, 0.25),
              1e-12);
}

TEST(TimeTable, PutsPointsThatContradictEachOtherInTheMiddle) {
  const TimeTable table({{1, 1, Seconds::Of(1)},
                         {1, 2, Seconds::Of(8)},
                         {1, 3, Seconds::Of(2)},
                         {1, 4, Seconds::Of(9)}});
  const LogLogCurve curve = table.AtWork(1);
  EXPECT_DOUBLE_EQ(curve.At(1).value(), 1.0);
  EXPECT_DOUBLE_EQ(curve.At(2).value(), 4.0);
  EXPECT_DOUBLE_EQ(curve.At(3).value(), 4.0);
  EXPECT_DOUBLE_EQ(curve.At(4).value(), 9.0);
  EXPECT_EQ(table.raw_points()[1].duration, Seconds::Of(8));
}

TEST(TimeTable, ReadsARowThatEndsEarlyAlongItsOwnTrend) {
  // 1 + work * micro-batch; the longer sequence was measured to 2 samples only.
  const TimeTable table({{1, 1, Seconds::Of(2)},
                         {1, 2, Seconds::Of(3)},
                         {1, 8, Seconds::Of(9)},
                         {4, 1, Seconds::Of(5)},
                         {4, 2, Seconds::Of(9)}});
  EXPECT_NEAR(table.AtWork(4).At(8).value(), 33.0, 1e-12);
}

TEST(TimeTable, HoldsWhatItFillsInWithinWhatWasMeasured) {
  // In proportion, the short sequence would take 40 at 10 samples.
  const TimeTable table({{1, 1, Seconds::Of(4)}, {2, 1, Seconds::Of(5)}, {2, 10, Seconds::Of(20)}});
  EXPECT_EQ(table.AtWork(1).At(10), Seconds::Of(20));
  EXPECT_EQ(table.AtWork(2).At(10), Seconds::Of(20));
}

TEST(TimeTable, KnowsWhatItCovers) {
  const TimeTable table({{2, 1, Seconds::Of(1)}, {8, 1, Seconds::Of(3)}});
  EXPECT_FALSE(table.Covers(1.9));
  EXPECT_TRUE(table.Covers(2));
  EXPECT_TRUE(table.Covers(5));
  EXPECT_FALSE(table.Covers(8.1));
  EXPECT_EQ(table.NearestWork(3.9), 2);
  EXPECT_EQ(table.NearestWork(4.1), 8);
  EXPECT_EQ(table.WorkBelow(5), 2);
  EXPECT_EQ(table.WorkAbove(5), 8);
  EXPECT_EQ(table.WorkAbove(8), 8);
  EXPECT_EQ(table.WorkBelow(8), 8);
}

}  // namespace
}  // namespace parplan
