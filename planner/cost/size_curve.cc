#include "planner/cost/size_curve.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace parplan {
namespace {

// Returns the value at `size` of the line through `a` and `b`.
Seconds OnLine(const SizeCurve::Point& a, const SizeCurve::Point& b, double size) {
  return a.duration + (b.duration - a.duration) * ((size - a.size) / (b.size - a.size));
}

Seconds InProportion(const SizeCurve::Point& point, double size) {
  return point.duration * (size / point.size);
}

}  // namespace

SizeCurve::SizeCurve(std::vector<Point> points) : points_(std::move(points)) {
  PARPLAN_CHECK(!points_.empty());
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.size < b.size; });
  for (size_t i = 1; i < points_.size(); ++i) {
    PARPLAN_CHECK(points_[i - 1].size < points_[i].size);
    points_[i].duration = std::max(points_[i].duration, points_[i - 1].duration);
  }
}

Seconds SizeCurve::At(double size) const {
  PARPLAN_CHECK(!points_.empty());
  if (size <= 0.0) return Seconds();
  if (size <= points_.front().size) {
    const Seconds proportional = InProportion(points_.front(), size);
    if (points_.size() == 1) return proportional;
    return std::max(proportional, OnLine(points_[0], points_[1], size));
  }
  if (size >= points_.back().size) return InProportion(points_.back(), size);
  const auto above =
      std::upper_bound(points_.begin(), points_.end(), size,
                       [](double value, const Point& point) { return value < point.size; });
  return OnLine(*(above - 1), *above, size);
}

}  // namespace parplan
