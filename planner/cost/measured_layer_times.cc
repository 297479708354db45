#include "planner/cost/measured_layer_times.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace parplan {
namespace {

// A backward pass has two products for each one of the forward pass: the gradients of inputs and of
// weights (docs/papers.md 1.5).
constexpr double kBackwardOverForward = 2.0;

// Returns the size by which sequence lengths are compared.
double WorkOf(const LayerDefinition& definition, int sequence_length) {
  const double operations = ForwardFlopsPerSample(definition, sequence_length);
  return operations > 0.0 ? operations : static_cast<double>(sequence_length);
}

// Returns `curve` with every duration multiplied by `factor(size)`; points that then fall are
// raised.
LogLogCurve ScaledBySize(const LogLogCurve& curve, const std::function<double(double)>& factor) {
  std::vector<LogLogCurve::Point> points = curve.points();
  Seconds last;
  for (LogLogCurve::Point& point : points) {
    point.duration = std::max(last, point.duration * factor(point.size));
    last = point.duration;
  }
  return LogLogCurve(points);
}

// The measurements at one degree.
struct DegreeTables {
  TimeTable forward;
  TimeTable backward;
  std::map<double, int> length_of_work;
  // Whether any point was measured.
  bool measured = false;
};

// Curves over the micro-batch at the wanted sequence length.
struct DegreeCurves {
  LogLogCurve forward;
  LogLogCurve backward;
  MeasurementSource source = MeasurementSource::kMeasured;
};

double LogDistance(int a, int b) { return std::abs(std::log(static_cast<double>(a) / b)); }

}  // namespace

class MeasuredLayerTimes::Resolver {
 public:
  Resolver(const LayerDefinition& definition, const std::vector<LayerTimingPoint>& timings,
           const LayerNeeds& needs, ResolutionNotes& notes, MeasuredLayerTimes& times)
      : definition_(definition),
        needs_(needs),
        notes_(notes),
        times_(times),
        layer_(absl::StrCat("layer `", definition.layer_definition_id, "`")),
        wanted_work_(WorkOf(definition, definition.sequence_length)) {
    ReadTables(timings);
  }

  void Resolve();

 private:
  // Returns whether estimates are allowed and there is an estimator.
  bool estimates() const { return needs_.allow_estimates && times_.estimate_ != nullptr; }
  LayerTimeEstimate Estimate(int degree, int sequence_length, double micro_batch_size) const {
    return times_.estimate_({degree, sequence_length, times_.sequence_parallel_ && degree > 1},
                            micro_batch_size);
  }
  void Missing(const std::string& what) {
    notes_.missing.push_back(absl::StrCat(layer_, ": ", what));
  }
  // Adds a note once per layer.
  void Note(const std::string& what) {
    std::string sentence = absl::StrCat(layer_, ": ", what);
    if (std::find(notes_.estimated.begin(), notes_.estimated.end(), sentence) ==
        notes_.estimated.end()) {
      notes_.estimated.push_back(std::move(sentence));
    }
  }

  void ReadTables(const std::vector<LayerTimingPoint>& timings);
  Seconds Backward(const LayerTimingPoint& point, double mean_ratio);
  // Makes the curves of a measured degree: cases 1 to 3 of the header.
  DegreeCurves MakeCurves(int degree);
  // Returns the same curves, made at the first call, so that the notes mention only degrees that
  // are used.
  const DegreeCurves& CurvesAt(int degree) {
    const auto found = curves_.find(degree);
    if (found != curves_.end()) return found->second;
    return curves_.emplace(degree, MakeCurves(degree)).first->second;
  }
  // Fills in a degree that was not measured: cases 4 and 5 of the header.
  void Fill(AtDegree& at);
  void EstimateBeyond(AtDegree& at, int nearest);

  const LayerDefinition& definition_;
  const LayerNeeds& needs_;
  ResolutionNotes& notes_;
  MeasuredLayerTimes& times_;
  const std::string layer_;
  const double wanted_work_;
  std::map<int, DegreeTables> tables_;
  std::map<int, DegreeCurves> curves_;
  std::vector<int> as_much_work_degrees_;
};

Seconds MeasuredLayerTimes::Resolver::Backward(const LayerTimingPoint& point, double mean_ratio) {
  if (point.backward.has_value()) return *point.backward;
  if (mean_ratio > 0.0) {
    Note("backward time where not measured taken in the mean ratio to the forward");
    return point.forward * mean_ratio;
  }
  if (estimates()) {
    Note("backward time estimated in its ratio to the forward");
    const LayerTimeEstimate estimate =
        Estimate(point.tensor_parallel_degree, point.sequence_length, point.micro_batch_size);
    return point.forward * (estimate.backward / estimate.forward);
  }
  Note("backward time taken as twice the forward");
  return point.forward * kBackwardOverForward;
}

void MeasuredLayerTimes::Resolver::ReadTables(const std::vector<LayerTimingPoint>& timings) {
  double sum_of_logs = 0.0;
  int backward_count = 0;
  for (const LayerTimingPoint& point : timings) {
    if (!point.backward.has_value()) continue;
    sum_of_logs += std::log(*point.backward / point.forward);
    ++backward_count;
  }
  const double mean_ratio = backward_count > 0 ? std::exp(sum_of_logs / backward_count) : 0.0;

  struct Points {
    std::vector<TimeTable::Point> forward;
    std::vector<TimeTable::Point> backward;
    std::map<double, int> length_of_work;
    bool measured = false;
  };
  std::map<int, Points> by_degree;
  for (const LayerTimingPoint& point : timings) {
    Points& points = by_degree[point.tensor_parallel_degree];
    const double work = WorkOf(definition_, point.sequence_length);
    const double size = point.micro_batch_size;
    points.forward.push_back({work, size, point.forward});
    points.backward.push_back({work, size, Backward(point, mean_ratio)});
    points.length_of_work[work] = point.sequence_length;
    if (point.origin != Origin::kEstimated) points.measured = true;
  }
  for (auto& [degree, points] : by_degree) {
    times_.measured_ = times_.measured_ || points.measured;
    tables_.emplace(degree, DegreeTables{TimeTable(std::move(points.forward)),
                                         TimeTable(std::move(points.backward)),
                                         std::move(points.length_of_work), points.measured});
  }
}

DegreeCurves MeasuredLayerTimes::Resolver::MakeCurves(int degree) {
  const DegreeTables& tables = tables_.at(degree);
  const int wanted = definition_.sequence_length;
  if (tables.forward.Covers(wanted_work_)) {
    DegreeCurves curves{tables.forward.AtWork(wanted_work_), tables.backward.AtWork(wanted_work_),
                        MeasurementSource::kMeasured};
    const int below = tables.length_of_work.at(tables.forward.WorkBelow(wanted_work_));
    const int above = tables.length_of_work.at(tables.forward.WorkAbove(wanted_work_));
    if (below != above) {
      curves.source = MeasurementSource::kInterpolated;
      Note(absl::StrCat("times at sequence_length ", wanted, " interpolated between ", below,
                        " and ", above));
    }
    if (!tables.measured) curves.source = MeasurementSource::kEstimated;
    return curves;
  }
  const double nearest_work = tables.forward.NearestWork(wanted_work_);
  const int nearest_length = tables.length_of_work.at(nearest_work);
  const LogLogCurve forward = tables.forward.AtWork(nearest_work);
  const LogLogCurve backward = tables.backward.AtWork(nearest_work);

  int model = 0;  // the nearest degree that was measured around the length wanted
  for (const auto& [other, other_tables] : tables_) {
    if (!other_tables.forward.Covers(wanted_work_)) continue;
    if (model == 0 || LogDistance(other, degree) < LogDistance(model, degree)) model = other;
  }
  if (model != 0) {
    Note(absl::StrCat("times at sequence_length ", wanted, " and tensor_parallel_degree ", degree,
                      " extended from ", nearest_length, " as at tensor_parallel_degree ", model));
    const DegreeTables& shown = tables_.at(model);
    const auto extended = [&](const LogLogCurve& curve, const TimeTable& table) {
      const LogLogCurve to = table.AtWork(wanted_work_);
      const LogLogCurve from = table.AtWork(nearest_work);
      return ScaledBySize(curve, [&](double size) { return to.At(size) / from.At(size); });
    };
    return {extended(forward, shown.forward), extended(backward, shown.backward),
            MeasurementSource::kExtrapolated};
  }
  if (estimates()) {
    Note(absl::StrCat("times at sequence_length ", wanted, " estimated in their ratio to ",
                      nearest_length));
    const auto ratio = [&](Seconds LayerTimeEstimate::*pass) {
      return [this, degree, wanted, nearest_length, pass](double size) {
        return Estimate(degree, wanted, size).*pass / Estimate(degree, nearest_length, size).*pass;
      };
    };
    return {ScaledBySize(forward, ratio(&LayerTimeEstimate::forward)),
            ScaledBySize(backward, ratio(&LayerTimeEstimate::backward)),
            MeasurementSource::kEstimated};
  }
  Note(absl::StrCat("times at sequence_length ", wanted, " extended by operations from ",
                    nearest_length));
  return {tables.forward.AtWork(wanted_work_), tables.backward.AtWork(wanted_work_),
          MeasurementSource::kExtrapolated};
}

void MeasuredLayerTimes::Resolver::EstimateBeyond(AtDegree& at, int nearest) {
  const DegreeCurves& curves = CurvesAt(nearest);
  double forward_logs = 0.0;
  double backward_logs = 0.0;
  for (const LogLogCurve::Point& point : curves.forward.points()) {
    const LayerTimeEstimate estimate = Estimate(nearest, definition_.sequence_length, point.size);
    forward_logs += std::log(point.duration / estimate.forward);
    backward_logs += std::log(curves.backward.At(point.size) / estimate.backward);
  }
  const double count = static_cast<double>(curves.forward.points().size());
  at.forward_ratio = std::exp(forward_logs / count);
  at.backward_ratio = std::exp(backward_logs / count);
  at.source = MeasurementSource::kEstimated;
  Note(absl::StrCat("time at tensor_parallel_degree ", at.tensor_parallel_degree,
                    " estimated in its ratio to ", nearest));
}

void MeasuredLayerTimes::Resolver::Fill(AtDegree& at) {
  const int degree = at.tensor_parallel_degree;
  const auto above = tables_.lower_bound(degree);
  if (above != tables_.end() && above->first == degree) {
    const DegreeCurves& curves = CurvesAt(degree);
    at.forward = curves.forward;
    at.backward = curves.backward;
    at.source = curves.source;
    for (const TimeTable::Point& point : above->second.forward.raw_points()) {
      if (point.work_per_sample == wanted_work_) {
        at.measured_sizes.push_back(point.micro_batch_size);
      }
    }
    return;
  }
  if (above != tables_.end() && above != tables_.begin()) {
    const int low = std::prev(above)->first;
    const int high = above->first;
    const DegreeCurves& below = CurvesAt(low);
    const DegreeCurves& beyond = CurvesAt(high);
    const double weight =
        std::log(static_cast<double>(degree) / low) / std::log(static_cast<double>(high) / low);
    at.forward = Between(below.forward, beyond.forward, weight);
    at.backward = Between(below.backward, beyond.backward, weight);
    at.source = std::max({MeasurementSource::kInterpolated, below.source, beyond.source});
    Note(absl::StrCat("time at tensor_parallel_degree ", degree, " interpolated between ", low,
                      " and ", high));
    return;
  }
  const bool is_below = above != tables_.end();
  const int nearest = is_below ? above->first : std::prev(above)->first;
  if (is_below && !needs_.allow_estimates) {
    Missing(absl::StrCat("forward time at tensor_parallel_degree ", degree));
    return;
  }
  if (estimates()) return EstimateBeyond(at, nearest);
  const DegreeCurves& curves = CurvesAt(nearest);
  at.forward = curves.forward;
  at.backward = curves.backward;
  at.sample_factor = static_cast<double>(nearest) / degree;
  at.source = std::max(MeasurementSource::kExtrapolated, curves.source);
  as_much_work_degrees_.push_back(degree);
}

void MeasuredLayerTimes::Resolver::Resolve() {
  if (tables_.empty()) {
    if (!estimates()) return Missing("forward time at tensor_parallel_degree 1");
    for (const int degree : needs_.tensor_parallel_degrees) {
      times_.degrees_.emplace_back().tensor_parallel_degree = degree;
    }
    return Note("times estimated, none measured");
  }
  const bool covered = std::any_of(tables_.begin(), tables_.end(), [this](const auto& entry) {
    return entry.second.forward.Covers(wanted_work_);
  });
  if (!covered && !needs_.allow_estimates) {
    return Missing(absl::StrCat("forward time at sequence_length ", definition_.sequence_length));
  }
  for (const int degree : needs_.tensor_parallel_degrees) {
    AtDegree& at = times_.degrees_.emplace_back();
    at.tensor_parallel_degree = degree;
    Fill(at);
  }
  if (!as_much_work_degrees_.empty()) {
    Note(absl::StrCat("time at tensor-parallel degrees not measured (",
                      absl::StrJoin(as_much_work_degrees_, ", "),
                      ") taken as that of a micro-batch of as much work"));
  }
  if (!times_.measured_) Note("times come from no stopwatch");
}

MeasuredLayerTimes MeasuredLayerTimes::Resolve(const LayerDefinition& definition,
                                               const std::vector<LayerTimingPoint>& timings,
                                               const LayerNeeds& needs, bool sequence_parallel,
                                               const LayerEstimator* estimator,
                                               ResolutionNotes& notes) {
  MeasuredLayerTimes times;
  times.sequence_length_ = definition.sequence_length;
  times.sequence_parallel_ = sequence_parallel;
  if (estimator != nullptr) times.estimate_ = estimator->times;
  Resolver(definition, timings, needs, notes, times).Resolve();
  return times;
}

const MeasuredLayerTimes::AtDegree& MeasuredLayerTimes::At(int tensor_parallel_degree) const {
  for (const AtDegree& at : degrees_) {
    if (at.tensor_parallel_degree == tensor_parallel_degree) return at;
  }
  internal::CheckFailed(__FILE__, __LINE__, "tensor-parallel degree was resolved");
}

LayerTimeEstimate MeasuredLayerTimes::Estimate(const AtDegree& at, double micro_batch_size) const {
  const int degree = at.tensor_parallel_degree;
  return estimate_({degree, sequence_length_, sequence_parallel_ && degree > 1}, micro_batch_size);
}

Seconds MeasuredLayerTimes::Forward(int tensor_parallel_degree, double micro_batch_size) const {
  const AtDegree& at = At(tensor_parallel_degree);
  if (!at.forward.empty()) return at.forward.At(micro_batch_size * at.sample_factor);
  if (micro_batch_size <= 0.0) return Seconds();
  return Estimate(at, micro_batch_size).forward * at.forward_ratio;
}

Seconds MeasuredLayerTimes::Backward(int tensor_parallel_degree, double micro_batch_size) const {
  const AtDegree& at = At(tensor_parallel_degree);
  if (!at.backward.empty()) return at.backward.At(micro_batch_size * at.sample_factor);
  if (micro_batch_size <= 0.0) return Seconds();
  return Estimate(at, micro_batch_size).backward * at.backward_ratio;
}

MeasurementSource MeasuredLayerTimes::SourceOf(int tensor_parallel_degree,
                                               double micro_batch_size) const {
  const AtDegree& at = At(tensor_parallel_degree);
  if (at.forward.empty()) return MeasurementSource::kEstimated;
  const std::vector<LogLogCurve::Point>& points = at.forward.points();
  if (at.source == MeasurementSource::kMeasured) {
    const std::vector<double>& sizes = at.measured_sizes;
    if (std::binary_search(sizes.begin(), sizes.end(), micro_batch_size)) return at.source;
    const bool between = sizes.front() < micro_batch_size && micro_batch_size < sizes.back();
    return between ? MeasurementSource::kInterpolated : MeasurementSource::kExtrapolated;
  }
  if (at.source == MeasurementSource::kInterpolated &&
      (micro_batch_size < points.front().size || points.back().size < micro_batch_size)) {
    return MeasurementSource::kExtrapolated;
  }
  return at.source;
}

}  // namespace parplan
