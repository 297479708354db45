// Measured times of one layer as a table over micro-batch and sequence length.

#ifndef PARPLAN_PLANNER_COST_MEASURED_TABLE_H_
#define PARPLAN_PLANNER_COST_MEASURED_TABLE_H_

#include <vector>

#include "base/units.h"

namespace parplan {

// Time over the size of the work: straight lines in logarithms between points,
// which is exact wherever the time is a power of the size, and alpha-beta
// (a fixed cost and a cost per unit) outside them. Never falls as the size grows.
class LogLogCurve {
 public:
  struct Point {
    double size = 0.0;  // > 0
    Seconds duration;   // > 0
  };

  // How it goes on outside the points.
  struct Ends {
    // Of a size of 0, at most that of the first point.
    Seconds fixed_cost;
    // Above the last point; > 0.
    double seconds_per_unit = 0.0;
  };

  // An empty curve; `At` must not be called.
  LogLogCurve() = default;

  // REQUIRES: at least one point, sizes that rise, durations that don't fall. The
  // fixed cost is that of the line through the first two points, at least 0; 0 when
  // there is only one. The cost per unit above the last fits the points down to a
  // quarter of it best, and is never more than that of the last point alone; it is
  // that when there is one point or the points show no cost per unit.
  explicit LogLogCurve(std::vector<Point> points);
  LogLogCurve(std::vector<Point> points, Ends ends);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }

  const Ends& ends() const { return ends_; }

  // Time for `size` >= 0; 0 for 0; exactly the duration of a point at its size.
  // O(log points), no allocation.
  Seconds At(double size) const;

 private:
  std::vector<Point> points_;
  // Natural logarithms of `points_`.
  std::vector<double> log_sizes_;
  std::vector<double> log_durations_;
  Ends ends_;
};

// The curve in the middle, in logarithms, between two: that of the weight 0 is
// `a`, that of 1 is `b`. At the sizes of both; never falls.
LogLogCurve Between(const LogLogCurve& a, const LogLogCurve& b, double weight);

// Time over two kinds of size at once: the work of one sample, and the samples
// of one micro-batch. Any set of points will do; they need be no grid.
//
// The points are made a grid of all their sizes that never falls either way, and
// read along one `LogLogCurve` after the other. On the grid,
//
// * a point that no other contradicts stands as it was measured. Where more work
//   measured faster, a point is put in the middle (geometric) between the least
//   and the most that leaves no contradiction: the slowest of all points with no
//   more work than it, and the fastest of all with no less;
// * a size that was measured in one row only is read in the others along their
//   own curves, within what measured neighbours allow;
// * outside the micro-batches, rows of more work have no smaller fixed cost and no
//   smaller cost per sample than those of less.
class TimeTable {
 public:
  struct Point {
    double work_per_sample = 0.0;   // > 0
    double micro_batch_size = 0.0;  // > 0
    Seconds duration;               // > 0
  };

  // REQUIRES: at least one point; no two of equal sizes. Any order.
  // O(points^2 + cells * points).
  explicit TimeTable(std::vector<Point> points);

  // As given, ascending by work and micro-batch.
  const std::vector<Point>& raw_points() const { return raw_points_; }

  // Whether `work_per_sample` lies within what was measured.
  bool Covers(double work_per_sample) const {
    return works_.front() <= work_per_sample && work_per_sample <= works_.back();
  }
  // Work per sample of the measured row nearest to `work_per_sample`, by ratio.
  double NearestWork(double work_per_sample) const;
  // Of the measured rows, that at or below, and at or above. REQUIRES: Covers.
  double WorkBelow(double work_per_sample) const;
  double WorkAbove(double work_per_sample) const;

  // Time over the micro-batch at `work_per_sample` > 0. For more work nowhere
  // less.
  LogLogCurve AtWork(double work_per_sample) const;

 private:
  std::vector<Point> raw_points_;
  std::vector<double> works_;  // ascending
  std::vector<double> micro_batch_sizes_;
  // Per micro-batch size a curve over the work per sample.
  std::vector<LogLogCurve> columns_;
  // Of each row, never falling; and the cost per sample over the work.
  std::vector<Seconds> fixed_costs_;
  LogLogCurve seconds_per_sample_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MEASURED_TABLE_H_
