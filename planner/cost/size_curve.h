// A measured relation "so much work takes so long", as a table.

#ifndef PARPLAN_PLANNER_COST_SIZE_CURVE_H_
#define PARPLAN_PLANNER_COST_SIZE_CURVE_H_

#include <vector>

#include "base/units.h"

namespace parplan {

// Time over the size of the work (bytes of a message, samples of a
// micro-batch). Never falls as the size grows: a point that measured faster
// than a smaller one is raised to it, as noise of the stopwatch.
class SizeCurve {
 public:
  struct Point {
    double size = 0.0;  // > 0
    Seconds duration;   // > 0
  };

  // An empty curve; `At` must not be called.
  SizeCurve() = default;

  // REQUIRES: at least one point; sizes differ. Any order.
  explicit SizeCurve(std::vector<Point> points);

  bool empty() const { return points_.empty(); }
  // Ascending by size.
  const std::vector<Point>& points() const { return points_; }

  // Time for `size` >= 0; 0 for 0. Between points: straight line. Below the
  // first: the line through the first two, but no faster per unit than the
  // first point; in proportion when there is only one. Above the last: in
  // proportion to the last, whose fixed cost matters least. O(log points).
  Seconds At(double size) const;

 private:
  std::vector<Point> points_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SIZE_CURVE_H_
