// Tables of measured times over micro-batch and sequence length. `MeasuredLayerTimes` is made of
// them.

#ifndef PARPLAN_PLANNER_COST_MEASURED_TABLE_H_
#define PARPLAN_PLANNER_COST_MEASURED_TABLE_H_

#include <vector>

#include "base/units.h"

namespace parplan {

// Time over the size of the work. Between points it is a straight line in logarithms, which is
// exact if time is a power of the size; outside them it is alpha-beta, a fixed cost and a cost
// per unit. It never falls as the size grows. Immutable, as is `TimeTable`.
class LogLogCurve {
 public:
  struct Point {
    double size = 0.0;  // > 0
    Seconds duration;   // > 0
  };

  // Continuation outside the points.
  struct Ends {
    // Time of a size just above 0; at most that of the first point.
    Seconds fixed_cost;
    // Above the last point; > 0.
    double seconds_per_unit = 0.0;
  };

  // An empty curve; `At` aborts.
  LogLogCurve() = default;

  // Makes a curve through `points`. REQUIRES: at least one point, rising sizes, durations that do
  // not fall, and `ends` as above; aborts otherwise. Without `ends`, the fixed cost is that of the
  // line through the first two points, at least 0, and 0 for a single point. The cost per unit
  // above the last point is the best fit to the points from a quarter of its size on, and never
  // more than that of the last point alone, which is used if there is one point or the points show
  // no cost per unit.
  explicit LogLogCurve(const std::vector<Point>& points);
  LogLogCurve(std::vector<Point> points, Ends ends);

  // Returns whether the curve has no points.
  bool empty() const { return points_.empty(); }
  // The points by rising size.
  const std::vector<Point>& points() const { return points_; }

  // The continuation outside the points, given or computed.
  const Ends& ends() const { return ends_; }

  // Returns the time for `size` >= 0: 0 for 0, and exactly the duration of a point at its size.
  // O(log points), allocates nothing. REQUIRES: not empty; aborts otherwise.
  Seconds At(double size) const;

 private:
  std::vector<Point> points_;
  // Natural logarithms of `points_`.
  std::vector<double> log_sizes_;
  std::vector<double> log_durations_;
  Ends ends_;
};

// Returns the curve between two in logarithms: `a` for a weight of 0, `b` for 1. It has points at
// the sizes of both and never falls. REQUIRES: neither is empty; aborts otherwise.
LogLogCurve Between(const LogLogCurve& a, const LogLogCurve& b, double weight);

// Time over two sizes at once: the work of one sample, and the samples of one micro-batch. The
// points need not form a grid.
//
// The table completes them to a grid of all their sizes on which time never falls in either
// direction, and reads it along one `LogLogCurve` after the other:
//
// * A point that no other contradicts stays as measured. If more work measured faster, a point is
//   moved to the geometric mean of the least and the most that leaves no contradiction: the
//   slowest of all points with no more work, and the fastest of all with no less.
// * A size that was measured in one row only is read in the other rows along their own curves,
//   within the limits of measured neighbours.
// * Outside the measured micro-batches, rows of more work have no smaller fixed cost and no smaller
//   cost per sample than those of less.
class TimeTable {
 public:
  struct Point {
    double work_per_sample = 0.0;   // > 0
    double micro_batch_size = 0.0;  // > 0
    Seconds duration;               // > 0
  };

  // Makes the table from points in any order. REQUIRES: at least one point, no two of equal sizes,
  // and sizes and times above 0; aborts otherwise. O(points^2 + cells * points).
  explicit TimeTable(std::vector<Point> points);

  // The measured points, ascending by work and micro-batch.
  const std::vector<Point>& raw_points() const { return raw_points_; }

  // Returns whether `work_per_sample` lies within the measured rows.
  bool Covers(double work_per_sample) const {
    return works_.front() <= work_per_sample && work_per_sample <= works_.back();
  }
  // Returns the work per sample of the measured row nearest to `work_per_sample`, by ratio.
  double NearestWork(double work_per_sample) const;
  // Return the work of the nearest measured row at or below `work_per_sample`, and at or above it.
  // REQUIRES: `Covers(work_per_sample)`; aborts otherwise.
  double WorkBelow(double work_per_sample) const;
  double WorkAbove(double work_per_sample) const;

  // Returns time over the micro-batch at `work_per_sample` > 0. More work nowhere takes less.
  LogLogCurve AtWork(double work_per_sample) const;

 private:
  std::vector<Point> raw_points_;
  std::vector<double> works_;  // ascending
  std::vector<double> micro_batch_sizes_;
  // [micro-batch size] curves over the work per sample.
  std::vector<LogLogCurve> columns_;
  // [row] fixed costs, which never fall; and the cost per sample over the work.
  std::vector<Seconds> fixed_costs_;
  LogLogCurve seconds_per_sample_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEASURED_TABLE_H_
