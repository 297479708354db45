// A table of measured times over the size of the work. Measured collectives and optimizer steps are
// such curves.

#ifndef PARPLAN_PLANNER_COST_SIZE_CURVE_H_
#define PARPLAN_PLANNER_COST_SIZE_CURVE_H_

#include <vector>

#include "base/units.h"

namespace parplan {

// Time over the size of the work, such as bytes of a message or samples of a micro-batch. It never
// falls as the size grows: a point that measured faster than a smaller one is taken for noise and
// raised to it. Immutable.
class SizeCurve {
 public:
  struct Point {
    double size = 0.0;  // > 0
    Seconds duration;   // > 0
  };

  // An empty curve; `At` aborts.
  SizeCurve() = default;

  // Makes a curve from points in any order. REQUIRES: at least one point; sizes differ. Aborts
  // otherwise.
  explicit SizeCurve(std::vector<Point> points);

  // Returns whether the curve has no points.
  bool empty() const { return points_.empty(); }
  // Ascending by size.
  const std::vector<Point>& points() const { return points_; }

  // Returns the time for `size` >= 0; 0 for 0. Between points it is a straight line. Below the
  // first it is the line through the first two, but no faster per unit than the first point, and
  // proportional if there is only one. Above the last it is proportional to the last, whose fixed
  // cost matters least. O(log points). REQUIRES: not empty; aborts otherwise.
  Seconds At(double size) const;

 private:
  std::vector<Point> points_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SIZE_CURVE_H_
