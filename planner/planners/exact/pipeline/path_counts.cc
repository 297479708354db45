#include "planner/planners/exact/pipeline/path_counts.h"

#include <algorithm>
#include <utility>

namespace parplan {
namespace {

// Newton steps towards the level at which weights sum up to one; a step is exact if the same
// weights are positive before and after it, so few are needed.
constexpr int kLevelSteps = 64;
constexpr double kLevelTolerance = 1e-12;

// How often the path of a stage passes through the stage and through each later stage; it passes
// once through those in front.
struct Path {
  double own = 0.0;
  double later = 0.0;
};

// Returns the path of a stage. If it has fewer micro-batches in flight than there are: a round
// trip, then one micro-batch after the other until the last begins, which makes a round trip too.
// Otherwise all micro-batches one after the other, which does not involve later stages. Under GPipe
// all stages process one micro-batch and the stage itself all others.
Path PathOf(const SuffixRecurrence& recurrence, int stage) {
  const double count = recurrence.micro_batch_count();
  if (recurrence.is_gpipe()) return {count, 1.0};
  const double in_flight = recurrence.in_flight(stage);
  if (count - 1.0 >= in_flight) return {count + 1.0 - in_flight, 2.0};
  return {count, 0.0};
}

// Weights with which layers add `level` in every stage, as far as no weight is negative, and their
// sum, a convex function of the level.
struct Weights {
  std::vector<double> of_path;
  double sum = 0.0;
  // Derivative of `sum` with respect to the level.
  double slope = 0.0;
};

Weights WeightsAt(double level, const SuffixRecurrence& recurrence,
                  absl::Span<const LayerRate> rates) {
  Weights weights;
  // Passes of a stage on the paths of stages in front of it, and their derivative.
  double later = 0.0;
  double later_slope = 0.0;
  for (size_t stage = 0; stage < rates.size(); ++stage) {
    const Path path = PathOf(recurrence, static_cast<int>(stage));
    const double wanted = (level - rates[stage].besides) / rates[stage].per_pass;
    const double weight = (wanted - (1.0 - weights.sum) - later) / (path.own - 1.0);
    weights.of_path.push_back(std::max(0.0, weight));
    if (!(weight > 0.0)) continue;
    const double slope =
        (1.0 / rates[stage].per_pass + weights.slope - later_slope) / (path.own - 1.0);
    weights.sum += weight;
    weights.slope += slope;
    later += path.later * weight;
    later_slope += path.later * slope;
  }
  return weights;
}

// Newton's method approaches the root of a convex function from above.
Weights FindWeights(const SuffixRecurrence& recurrence, absl::Span<const LayerRate> rates) {
  double level = 1.0;
  Weights weights = WeightsAt(level, recurrence, rates);
  while (weights.sum < 1.0) {
    level *= 2.0;
    weights = WeightsAt(level, recurrence, rates);
  }
  for (int step = 0; step < kLevelSteps && weights.sum > 1.0 + kLevelTolerance; ++step) {
    level -= (weights.sum - 1.0) / weights.slope;
    Weights next = WeightsAt(level, recurrence, rates);
    if (!(next.sum > 0.0 && next.sum < weights.sum)) break;
    weights = std::move(next);
  }
  for (double& weight : weights.of_path) weight /= weights.sum;
  return weights;
}

}  // namespace

PathCounts BalancePaths(const SuffixRecurrence& recurrence, absl::Span<const LayerRate> rates) {
  PathCounts counts;
  // A single micro-batch passes through every stage once, whichever path is taken.
  if (recurrence.micro_batch_count() == 1.0) {
    counts.passes.assign(rates.size(), 1.0);
    counts.messages.assign(rates.size(), 1.0);
    counts.messages.back() = 0.0;
    return counts;
  }
  const Weights weights = FindWeights(recurrence, rates);
  double in_front = 1.0;
  double later = 0.0;
  for (size_t stage = 0; stage < rates.size(); ++stage) {
    const Path path = PathOf(recurrence, static_cast<int>(stage));
    const double weight = weights.of_path[stage];
    in_front = std::max(0.0, in_front - weight);
    counts.passes.push_back(in_front + path.own * weight + later);
    later += path.later * weight;
    counts.messages.push_back(in_front + later);
  }
  counts.messages.back() = 0.0;
  return counts;
}

}  // namespace parplan
