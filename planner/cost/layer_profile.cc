#include "planner/cost/layer_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/base/check.h"

namespace parplan {
namespace {

// The sequence length among those of `points` to work from: the layer's own,
// else the nearest (the longer of two equally near). 0 when there is none.
template <typename Point, typename Filter>
int NearestSequenceLength(const std::vector<Point>& points, int wanted, Filter filter) {
  int best = 0;
  for (const Point& point : points) {
    if (!filter(point)) continue;
    const int length = point.sequence_length;
    const int distance = std::abs(length - wanted);
    const int best_distance = std::abs(best - wanted);
    if (best == 0 || distance < best_distance || (distance == best_distance && length > best)) {
      best = length;
    }
  }
  return best;
}

// The curves of one degree at one sequence length, scaled by `factor`.
struct TimeCurves {
  SizeCurve forward;
  SizeCurve backward;
  bool backward_measured = true;
  bool measured = false;
};

std::optional<TimeCurves> CurvesAt(const MeasuredLayer& measured, int degree, int length,
                                   double factor) {
  std::vector<SizeCurve::Point> forward;
  std::vector<SizeCurve::Point> backward;
  TimeCurves curves;
  for (const LayerTimingPoint& point : measured.timings) {
    if (point.tensor_parallel_degree != degree || point.sequence_length != length) continue;
    const double size = point.micro_batch_size;
    // Without a measurement the backward pass does twice the work of the
    // forward pass: gradients of inputs and of weights (papers.md 1.5).
    const Seconds back = point.backward.value_or(point.forward * 2.0);
    forward.push_back({size, point.forward * factor});
    backward.push_back({size, back * factor});
    if (!point.backward.has_value()) curves.backward_measured = false;
    if (point.origin != Origin::kEstimated) curves.measured = true;
  }
  if (forward.empty()) return std::nullopt;
  curves.forward = SizeCurve(std::move(forward));
  curves.backward = SizeCurve(std::move(backward));
  return curves;
}

// Scaled sizes stay countable; `CostModel::Create` refuses what comes near.
constexpr double kLargestBytes = 0x1p60;

std::string DegreeText(int degree) { return absl::StrCat("tensor_parallel_degree ", degree); }

}  // namespace

LayerProfile LayerProfile::Resolve(const LayerDefinition& definition, Precision precision,
                                   const MeasuredLayer* measured, const Needs& needs,
                                   ResolutionNotes& notes) {
  LayerProfile profile;
  profile.definition_ = definition;
  for (int degree : needs.tensor_parallel_degrees) {
    AtDegree at;
    at.tensor_parallel_degree = degree;
    profile.degrees_.push_back(std::move(at));
  }
  if (measured == nullptr) {
    notes.missing.push_back(absl::StrCat("layer `", definition.layer_definition_id,
                                         "`: no timing and no memory of an equal layer"));
    return profile;
  }
  profile.ResolveTimes(*measured, needs, notes);
  profile.ResolveMemory(*measured, needs, precision, notes);
  return profile;
}

void LayerProfile::ResolveTimes(const MeasuredLayer& measured, const Needs& needs,
                                ResolutionNotes& notes) {
  const std::string layer = absl::StrCat("layer `", definition_.layer_definition_id, "`");
  const int wanted = definition_.sequence_length;
  const auto at_degree_one = [](const LayerTimingPoint& p) {
    return p.tensor_parallel_degree == 1;
  };
  const int length = NearestSequenceLength(measured.timings, wanted, at_degree_one);
  if (length == 0) {
    notes.missing.push_back(absl::StrCat(layer, ": forward time at ", DegreeText(1)));
    return;
  }
  double factor = 1.0;
  if (length != wanted) {
    if (!needs.allow_estimates) {
      notes.missing.push_back(absl::StrCat(layer, ": forward time at sequence_length ", wanted));
      return;
    }
    const double flops = ForwardFlopsPerSample(definition_, length);
    factor = flops > 0.0 ? ForwardFlopsPerSample(definition_, wanted) / flops
                         : static_cast<double>(wanted) / length;
    notes.estimated.push_back(absl::StrCat(layer, ": times at sequence_length ", wanted,
                                           " scaled by operations from ", length));
  }
  const TimeCurves base = *CurvesAt(measured, 1, length, factor);
  measured_ = base.measured;
  bool backward_measured = base.backward_measured;
  bool split_assumed = false;
  for (AtDegree& at : degrees_) {
    std::optional<TimeCurves> own = CurvesAt(measured, at.tensor_parallel_degree, length, factor);
    if (own.has_value()) {
      at.forward = std::move(own->forward);
      at.backward = std::move(own->backward);
      backward_measured = backward_measured && own->backward_measured;
      continue;
    }
    at.forward = base.forward;
    at.backward = base.backward;
    at.sample_divisor = at.tensor_parallel_degree;
    split_assumed = true;
  }
  if (!backward_measured) {
    notes.estimated.push_back(absl::StrCat(layer, ": backward time taken as twice the forward"));
  }
  if (split_assumed) {
    notes.estimated.push_back(absl::StrCat(
        layer,
        ": time at tensor-parallel degrees not measured taken as that of a micro-batch so "
        "many times smaller"));
  }
  if (!measured_) {
    notes.estimated.push_back(absl::StrCat(layer, ": times come from no stopwatch"));
  }
}

void LayerProfile::ResolveMemory(const MeasuredLayer& measured, const Needs& needs,
                                 Precision precision, ResolutionNotes& notes) {
  const std::string layer = absl::StrCat("layer `", definition_.layer_definition_id, "`");
  const int wanted = definition_.sequence_length;
  sequence_parallel_ = std::any_of(measured.memories.begin(), measured.memories.end(),
                                   [](const LayerMemoryPoint& p) { return p.sequence_parallel; });
  // At degree 1 there is nothing to split, so either kind of point serves.
  const auto usable = [this](const LayerMemoryPoint& p) {
    return p.tensor_parallel_degree == 1 || p.sequence_parallel == sequence_parallel_;
  };
  const int length = NearestSequenceLength(measured.memories, wanted, usable);
  if (length == 0) {
    notes.missing.push_back(absl::StrCat(layer, ": memory at any tensor_parallel_degree"));
    return;
  }
  if (length != wanted) {
    if (!needs.allow_estimates) {
      notes.missing.push_back(absl::StrCat(layer, ": memory at sequence_length ", wanted));
      return;
    }
    notes.estimated.push_back(absl::StrCat(layer, ": activations at sequence_length ", wanted,
                                           " in proportion from ", length));
  }
  const double factor = static_cast<double>(wanted) / length;
  std::vector<const LayerMemoryPoint*> points;
  for (const LayerMemoryPoint& point : measured.memories) {
    if (point.sequence_length != length || !usable(point)) continue;
    // Of two points at degree 1 the one of the kind in use comes last.
    if (!points.empty() && points.back()->tensor_parallel_degree == point.tensor_parallel_degree) {
      points.pop_back();
    }
    points.push_back(&point);
  }

  bool checkpoint_assumed = false;
  for (AtDegree& at : degrees_) {
    const int degree = at.tensor_parallel_degree;
    const LayerMemoryPoint* nearest = nullptr;  // the largest degree measured up to this one
    const LayerMemoryPoint* below = nullptr;    // the one before
    for (const LayerMemoryPoint* point : points) {
      if (point->tensor_parallel_degree > degree) break;
      below = nearest;
      nearest = point;
    }
    if (nearest == nullptr) nearest = points.front();
    const double ratio = static_cast<double>(nearest->tensor_parallel_degree) / degree;
    double activation = nearest->activation_per_sample.as_double();
    at.parameter_count = nearest->parameter_count;
    if (nearest->tensor_parallel_degree != degree) {
      if (!needs.allow_estimates) {
        notes.missing.push_back(absl::StrCat(layer, ": memory at ", DegreeText(degree)));
        continue;
      }
      notes.estimated.push_back(absl::StrCat(layer, ": memory at ", DegreeText(degree),
                                             " extended from ",
                                             DegreeText(nearest->tensor_parallel_degree)));
      at.parameter_count =
          static_cast<int64_t>(std::ceil(static_cast<double>(nearest->parameter_count) * ratio));
      if (sequence_parallel_) {
        activation *= ratio;
      } else if (below != nullptr && ratio < 1.0) {
        // A part is split and a part is not: a + b / degree through two points.
        const double x0 = 1.0 / below->tensor_parallel_degree;
        const double x1 = 1.0 / nearest->tensor_parallel_degree;
        const double slope = (below->activation_per_sample.as_double() - activation) / (x0 - x1);
        // Noise may make the unsplit part negative; nothing shrinks faster than
        // by a perfect split.
        activation =
            std::max(activation * ratio, activation + std::max(0.0, slope) * (1.0 / degree - x1));
      } else if (ratio > 1.0) {
        activation *= ratio;
      }
    }
    at.activation_per_sample = Bytes::Ceil(std::min(activation * factor, kLargestBytes));
    if (nearest->checkpoint_per_sample.has_value()) {
      const double split = sequence_parallel_ ? ratio : 1.0;
      at.checkpoint_per_sample = Bytes::Ceil(
          std::min(nearest->checkpoint_per_sample->as_double() * split * factor, kLargestBytes));
    } else {
      // The input of the layer: one row of the residual stream per token.
      checkpoint_assumed = true;
      const double input = static_cast<double>(wanted) * definition_.hidden_size *
                           static_cast<double>(BytesPerElement(precision));
      at.checkpoint_per_sample = Bytes::Ceil(sequence_parallel_ ? input / degree : input);
    }
  }
  if (checkpoint_assumed && IsTransformer(definition_.kind)) {
    notes.estimated.push_back(
        absl::StrCat(layer, ": kept when recomputing taken as the size of the layer's input"));
  }
}

const LayerProfile::AtDegree& LayerProfile::At(int tensor_parallel_degree) const {
  for (const AtDegree& at : degrees_) {
    if (at.tensor_parallel_degree == tensor_parallel_degree) return at;
  }
  internal::CheckFailed(__FILE__, __LINE__, "tensor-parallel degree was resolved");
}

Seconds LayerProfile::Forward(int tensor_parallel_degree, double micro_batch_size) const {
  const AtDegree& at = At(tensor_parallel_degree);
  return at.forward.At(micro_batch_size / at.sample_divisor);
}

Seconds LayerProfile::Backward(int tensor_parallel_degree, double micro_batch_size) const {
  const AtDegree& at = At(tensor_parallel_degree);
  return at.backward.At(micro_batch_size / at.sample_divisor);
}

int64_t LayerProfile::ParameterCount(int tensor_parallel_degree) const {
  return At(tensor_parallel_degree).parameter_count;
}

Bytes LayerProfile::ActivationPerSample(int tensor_parallel_degree) const {
  return At(tensor_parallel_degree).activation_per_sample;
}

Bytes LayerProfile::CheckpointPerSample(int tensor_parallel_degree) const {
  return At(tensor_parallel_degree).checkpoint_per_sample;
}

}  // namespace parplan
