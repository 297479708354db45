#include "planner/cost/measured_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace parplan {
namespace {

// Returns the cost per unit of the line through the last point that fits the points down to a
// quarter of its size best, by least squares. With fewer points the noise of two neighbours would
// decide; with more the line would be that of small kernels.
double CostPerUnitAbove(const std::vector<LogLogCurve::Point>& points) {
  const LogLogCurve::Point& last = points.back();
  const double in_proportion = last.duration.value() / last.size;
  double covariance = 0.0;
  double variance = 0.0;
  for (size_t i = points.size() - 1; i-- > 0;) {
    const double size = last.size - points[i].size;
    if (points[i].size < last.size / 4.0 && variance > 0.0) break;
    covariance += size * (last.duration - points[i].duration).value();
    variance += size * size;
  }
  // Work is never free. Points that suggest it count only by the last one.
  if (!(covariance > 0.0)) return in_proportion;
  return std::min(covariance / variance, in_proportion);
}

// Returns the value at 0 of the line through the first two points.
Seconds FixedCost(const std::vector<LogLogCurve::Point>& points) {
  if (points.size() == 1) return Seconds();
  const LogLogCurve::Point& first = points[0];
  const LogLogCurve::Point& second = points[1];
  const Seconds sloped =
      (second.duration - first.duration) * (first.size / (second.size - first.size));
  return std::max(Seconds(), first.duration - sloped);
}

LogLogCurve::Ends EndsOf(const std::vector<LogLogCurve::Point>& points) {
  if (points.empty()) return {};
  return {FixedCost(points), CostPerUnitAbove(points)};
}

// Raises points that are faster than those of a smaller size.
void RaiseFalls(std::vector<LogLogCurve::Point>& points) {
  for (size_t i = 1; i < points.size(); ++i) {
    points[i].duration = std::max(points[i].duration, points[i - 1].duration);
  }
}

template <typename Member>
std::vector<double> Distinct(const std::vector<TimeTable::Point>& points, Member member) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const TimeTable::Point& point : points) values.push_back(point.*member);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Returns whether `a` has no more work than `b` in either size.
bool NoMoreThan(const TimeTable::Point& a, const TimeTable::Point& b) {
  return a.work_per_sample <= b.work_per_sample && a.micro_batch_size <= b.micro_batch_size;
}

// Returns the points without contradictions. The slowest point below and the fastest above never
// fall as work grows, so neither does their mean.
std::vector<TimeTable::Point> WithoutFalls(const std::vector<TimeTable::Point>& points) {
  std::vector<TimeTable::Point> middles = points;
  for (size_t i = 0; i < points.size(); ++i) {
    Seconds slowest_below = points[i].duration;
    Seconds fastest_above = points[i].duration;
    for (const TimeTable::Point& other : points) {
      if (NoMoreThan(other, points[i])) slowest_below = std::max(slowest_below, other.duration);
      if (NoMoreThan(points[i], other)) fastest_above = std::min(fastest_above, other.duration);
    }
    if (slowest_below == fastest_above) continue;
    middles[i].duration =
        Seconds::Of(std::sqrt(slowest_below.value()) * std::sqrt(fastest_above.value()));
  }
  return middles;
}

}  // namespace

LogLogCurve::LogLogCurve(const std::vector<Point>& points) : LogLogCurve(points, EndsOf(points)) {}

LogLogCurve::LogLogCurve(std::vector<Point> points, Ends ends)
    : points_(std::move(points)), ends_(ends) {
  PARPLAN_CHECK(!points_.empty());
  for (size_t i = 0; i < points_.size(); ++i) {
    PARPLAN_CHECK(points_[i].size > 0.0 && points_[i].duration > Seconds());
    if (i > 0) {
      PARPLAN_CHECK(points_[i - 1].size < points_[i].size);
      PARPLAN_CHECK(points_[i - 1].duration <= points_[i].duration);
    }
    log_sizes_.push_back(std::log(points_[i].size));
    log_durations_.push_back(std::log(points_[i].duration.value()));
  }
  PARPLAN_CHECK(ends_.fixed_cost <= points_.front().duration && ends_.seconds_per_unit > 0.0);
}

Seconds LogLogCurve::At(double size) const {
  PARPLAN_CHECK(!points_.empty());
  if (size <= 0.0) return Seconds();
  const Point& first = points_.front();
  const Point& last = points_.back();
  if (size < first.size) {
    return ends_.fixed_cost + (first.duration - ends_.fixed_cost) * (size / first.size);
  }
  if (size > last.size) {
    return last.duration + Seconds::Of(ends_.seconds_per_unit * (size - last.size));
  }
  const auto found =
      std::lower_bound(points_.begin(), points_.end(), size,
                       [](const Point& point, double value) { return point.size < value; });
  if (found->size == size) return found->duration;
  const size_t above = static_cast<size_t>(found - points_.begin());
  const size_t below = above - 1;
  const double weight =
      (std::log(size) - log_sizes_[below]) / (log_sizes_[above] - log_sizes_[below]);
  const double value =
      std::exp(log_durations_[below] + weight * (log_durations_[above] - log_durations_[below]));
  // Rounding must not step over a point.
  return std::clamp(Seconds::Of(value), points_[below].duration, points_[above].duration);
}

LogLogCurve Between(const LogLogCurve& a, const LogLogCurve& b, double weight) {
  std::vector<LogLogCurve::Point> points;
  for (const LogLogCurve* curve : {&a, &b}) {
    for (const LogLogCurve::Point& point : curve->points()) points.push_back(point);
  }
  const auto by_size = [](const LogLogCurve::Point& x, const LogLogCurve::Point& y) {
    return x.size < y.size;
  };
  std::sort(points.begin(), points.end(), by_size);
  points.erase(std::unique(points.begin(), points.end(),
                           [](const LogLogCurve::Point& x, const LogLogCurve::Point& y) {
                             return x.size == y.size;
                           }),
               points.end());
  for (LogLogCurve::Point& point : points) {
    point.duration = Seconds::Of(std::pow(a.At(point.size).value(), 1.0 - weight) *
                                 std::pow(b.At(point.size).value(), weight));
  }
  RaiseFalls(points);
  return LogLogCurve(points);
}

TimeTable::TimeTable(std::vector<Point> points) : raw_points_(std::move(points)) {
  PARPLAN_CHECK(!raw_points_.empty());
  std::sort(raw_points_.begin(), raw_points_.end(), [](const Point& a, const Point& b) {
    return std::pair(a.work_per_sample, a.micro_batch_size) <
           std::pair(b.work_per_sample, b.micro_batch_size);
  });
  works_ = Distinct(raw_points_, &Point::work_per_sample);
  micro_batch_sizes_ = Distinct(raw_points_, &Point::micro_batch_size);
  const std::vector<Point> measured = WithoutFalls(raw_points_);

  // Each row is a curve over its own micro-batches.
  std::vector<LogLogCurve> rows;
  for (const double work : works_) {
    std::vector<LogLogCurve::Point> row;
    for (const Point& point : measured) {
      if (point.work_per_sample == work) row.push_back({point.micro_batch_size, point.duration});
    }
    rows.emplace_back(std::move(row));
  }
  // A cell is read along its row, but is no faster than the rows of less work,
  // and lies between the measured points around it. All three never fall, so
  // neither does the cell; at a measured point the last two leave no choice.
  for (const double micro_batch_size : micro_batch_sizes_) {
    std::vector<LogLogCurve::Point> column;
    Seconds along_rows;
    for (size_t i = 0; i < works_.size(); ++i) {
      along_rows = std::max(along_rows, rows[i].At(micro_batch_size));
      const Point cell{works_[i], micro_batch_size, along_rows};
      Seconds least;
      Seconds most = Seconds::Infinite();
      for (const Point& point : measured) {
        if (NoMoreThan(point, cell)) least = std::max(least, point.duration);
        if (NoMoreThan(cell, point)) most = std::min(most, point.duration);
      }
      column.push_back({works_[i], std::min(std::max(along_rows, least), most)});
    }
    columns_.emplace_back(std::move(column));
  }

  std::vector<LogLogCurve::Point> costs_per_sample;
  for (size_t i = 0; i < works_.size(); ++i) {
    std::vector<LogLogCurve::Point> row;
    for (size_t j = 0; j < columns_.size(); ++j) {
      row.push_back({micro_batch_sizes_[j], columns_[j].points()[i].duration});
    }
    const LogLogCurve::Ends ends = LogLogCurve(row).ends();
    fixed_costs_.push_back(ends.fixed_cost);
    costs_per_sample.push_back({works_[i], Seconds::Of(ends.seconds_per_unit)});
    if (i > 0) fixed_costs_[i] = std::max(fixed_costs_[i], fixed_costs_[i - 1]);
  }
  RaiseFalls(costs_per_sample);
  seconds_per_sample_ = LogLogCurve(costs_per_sample);
}

double TimeTable::NearestWork(double work_per_sample) const {
  return *std::min_element(works_.begin(), works_.end(), [&](double a, double b) {
    return std::abs(std::log(a / work_per_sample)) < std::abs(std::log(b / work_per_sample));
  });
}

double TimeTable::WorkBelow(double work_per_sample) const {
  PARPLAN_CHECK(Covers(work_per_sample));
  return *(std::upper_bound(works_.begin(), works_.end(), work_per_sample) - 1);
}

double TimeTable::WorkAbove(double work_per_sample) const {
  PARPLAN_CHECK(Covers(work_per_sample));
  return *std::lower_bound(works_.begin(), works_.end(), work_per_sample);
}

LogLogCurve TimeTable::AtWork(double work_per_sample) const {
  std::vector<LogLogCurve::Point> points;
  points.reserve(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    points.push_back({micro_batch_sizes_[i], columns_[i].At(work_per_sample)});
  }
  // Columns that are extended each on its own may cross.
  RaiseFalls(points);

  // Outside the rows the fixed cost does not depend on the work.
  const auto above = std::upper_bound(works_.begin(), works_.end(), work_per_sample);
  Seconds fixed_cost = fixed_costs_[above == works_.begin() ? 0 : above - works_.begin() - 1];
  if (above != works_.begin() && above != works_.end()) {
    const double low = *(above - 1);
    const double weight = std::log(work_per_sample / low) / std::log(*above / low);
    fixed_cost += (fixed_costs_[above - works_.begin()] - fixed_cost) * weight;
  }
  const LogLogCurve::Point& last = points.back();
  const double in_proportion = last.duration.value() / last.size;
  const LogLogCurve::Ends ends{
      std::min(fixed_cost, points.front().duration),
      std::min(seconds_per_sample_.At(work_per_sample).value(), in_proportion)};
  return LogLogCurve(std::move(points), ends);
}

}  // namespace parplan
