#include "planner/planners/exact/pipeline/priced_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kPricedRounding = 1.0 - 1e-11;
// Rounds of computing prices from partitions and partitions from prices. Not measured for other
// numbers.
constexpr int kRounds = 2;
// Bisections of the longest stage of a partition; the loop ends earlier at a relative precision of
// 1e-5, so the number is only a guard.
constexpr int kReachSteps = 30;
// The longest step below which bounds are searched if nothing else is known, relative to the time
// of one balanced partition. A smaller factor may leave slower plans without a bound, a larger one
// makes the bound weaker. Not measured.
constexpr double kFarAbove = 1.3;
// Bisections between a step that is refuted and one that is not, and the ratio of the two at which
// they are close enough: 10 halvings of a range of 30 % leave less than 0.1 %.
constexpr int kBoundSteps = 10;
constexpr double kCloseBounds = 0.999;
// Cells of the dynamic programme that count as one state on the meter, because a cell takes much
// less time than a label. The factor is not measured.
constexpr int64_t kCellsOfState = 16;

}  // namespace

PricedPipeline::PricedPipeline(const PipelineSetting& setting, const LayerMenus& menus)
    : setting_(setting),
      menus_(menus),
      definition_count_(static_cast<int>(setting.problem().model().layer_definitions().size())) {
  SetPasses(std::vector<LayerRate>(setting.depth()));
  std::vector<char> was_seen(definition_count_);
  double max_transient = 0.0;
  const ModelSpec& model = setting.problem().model();
  const auto transient = [&](int layer) {
    return menus.least_transient(setting.definition_of(layer));
  };
  for (const ModelLayerRun& run : model.layer_runs()) {
    if (!was_seen[run.definition_index]++) definitions_.push_back(run.definition_index);
  }
  // The least transient of all layers except those at the ends that need less.
  const int layer_count = setting.layer_count();
  const double middle = transient(layer_count / 2);
  while (first_layers_ < layer_count && transient(first_layers_) < middle) ++first_layers_;
  while (last_layers_ < layer_count && transient(layer_count - 1 - last_layers_) < middle) {
    ++last_layers_;
  }
  max_transient = middle;
  for (int layer = first_layers_; layer < layer_count - last_layers_;) {
    max_transient = std::min(max_transient, transient(layer));
    layer = setting.EndOfRun(layer);
  }
  room_ = setting.largest_budget().as_double() - max_transient;
  double least_transient = kInfinity;
  for (const int definition : definitions_) {
    least_transient = std::min(least_transient, menus.least_transient(definition));
  }
  largest_room_ = setting.largest_budget().as_double() - least_transient;
  prices_.assign(setting.depth(), 0.0);
  minima_.resize(setting.depth());
}

void PricedPipeline::SetForwardBackwardTimes() {
  forward_backward_before_.assign(1, 0.0);
  const std::vector<double>& forward_backward = minima_.back().forward_backward;
  for (int layer = 0; layer < setting_.layer_count(); ++layer) {
    forward_backward_before_.push_back(forward_backward_before_.back() +
                                       forward_backward[setting_.definition_of(layer)]);
  }
}

// Gives each stage as many layers as the least memory allows: a stage that begins later cannot end
// earlier.
bool PricedPipeline::FitsSomewhere() const {
  const int depth = setting_.depth();
  int layer = 0;
  for (int stage = 0; stage < depth; ++stage) {
    int cutoff = setting_.largest_first(stage + 1);
    if (!setting_.fixed_boundaries().empty()) cutoff = setting_.fixed_boundaries()[stage + 1];
    double used = 0.0;
    const int first = layer;
    while (layer < cutoff) {
      used += minima_[stage].memories[setting_.definition_of(layer)];
      if (used > largest_room_ / kPricedRounding) break;
      ++layer;
    }
    if (layer == first || layer < setting_.least_first(stage + 1)) return false;
    if (!setting_.fixed_boundaries().empty() && layer < cutoff) return false;
  }
  return layer == setting_.layer_count();
}

double PricedPipeline::StageTime(int stage, int first_layer, int end_layer) const {
  const Minima& minima = minima_[stage];
  double forward_backward = 0.0;
  double priced = -prices_[stage] * room_;
  for (int layer = first_layer; layer < end_layer;) {
    const int end = std::min(setting_.EndOfRun(layer), end_layer);
    forward_backward += minima.forward_backward[setting_.definition_of(layer)] * (end - layer);
    priced += minima.passes[setting_.definition_of(layer)] * (end - layer);
    layer = end;
  }
  return std::max(forward_backward, priced / passes_[stage]);
}

double PricedPipeline::FixedSum() const {
  double sum = 0.0;
  for (int stage = 0; stage < setting_.depth(); ++stage) {
    const int first = setting_.fixed_boundaries()[stage];
    const int end = setting_.fixed_boundaries()[stage + 1];
    const bool is_end = end <= first_layers_ || first >= setting_.layer_count() - last_layers_;
    if (!is_end) sum += passes_[stage] * StageTime(stage, first, end);
  }
  return sum;
}

// The condition is monotone: a layer in front adds to the times before a stage what it takes from
// the stage's own time, at least once per micro-batch, and from every round trip.
bool PricedPipeline::Allows(int stage, int first, const RangeSums& sums, double cutoff) const {
  const double forward_backward = std::max(sums.forward_backward, sums.priced / passes_[stage]);
  if (sums.memory > largest_room_) return false;
  const SuffixRecurrence& recurrence = setting_.recurrence();
  const double count = recurrence.micro_batch_count();
  const double all = forward_backward_before_.back();
  if (recurrence.is_gpipe()) return all + (count - 1.0) * forward_backward <= cutoff;
  const double before = forward_backward_before_[first];
  return before + count * forward_backward <= cutoff &&
         before + recurrence.Rounds(stage, forward_backward, all - before, /*arc=*/0.0) <= cutoff;
}

void PricedPipeline::AddLayer(int stage, int layer, RangeSums& sums) const {
  const Minima& minima = minima_[stage];
  const int definition = setting_.definition_of(layer);
  sums.forward_backward += minima.forward_backward[definition];
  sums.priced += minima.passes[definition];
  sums.memory += minima.memories[definition];
}

// Sets the range of first layers of each stage: as far to the right as the stages in front can
// reach, as far to the left as the later ones can.
bool PricedPipeline::FindWindows(double cutoff) {
  const int depth = setting_.depth();
  const int layer_count = setting_.layer_count();
  const double limit = cutoff / kPricedRounding;
  latest_.assign(depth + 1, 0);
  earliest_.assign(depth + 1, 0);
  earliest_[depth] = latest_[depth] = layer_count;
  const auto none = [&](int stage) { return RangeSums{.priced = -prices_[stage] * largest_room_}; };
  for (int stage = 0; stage + 1 < depth; ++stage) {
    const int last = setting_.largest_first(stage + 1);
    RangeSums sums = none(stage);
    int end = latest_[stage];
    while (end < last) {
      AddLayer(stage, end, sums);
      if (!Allows(stage, latest_[stage], sums, limit)) break;
      ++end;
    }
    if (end < setting_.least_first(stage + 1)) return false;
    latest_[stage + 1] = end;
  }
  int earliest = layer_count;
  for (int stage = depth - 1; stage > 0; --stage) {
    RangeSums sums = none(stage);
    int first = earliest;
    while (first > setting_.least_first(stage)) {
      AddLayer(stage, first - 1, sums);
      if (!Allows(stage, first - 1, sums, limit)) break;
      --first;
    }
    if (first > latest_[stage] || first == earliest) return false;
    earliest_[stage] = earliest = first;
  }
  return true;
}

double PricedPipeline::LeastSum(double cutoff, SearchMeter& meter) {
  if (!setting_.fixed_boundaries().empty()) return FixedSum();
  if (!FindWindows(cutoff)) return kInfinity;
  const int depth = setting_.depth();
  const int layer_count = setting_.layer_count();
  std::vector<double> before(layer_count + 1, kInfinity);
  std::vector<double> after(layer_count + 1, kInfinity);
  before[0] = 0.0;
  int64_t cells = 0;
  for (int stage = 0; stage < depth; ++stage) {
    const std::vector<double>& costs = minima_[stage].priced;
    const double room = prices_[stage] * room_;
    // The room of a stage that has only end layers.
    const double room_of_ends = prices_[stage] * largest_room_;
    // `best`: least cost up to the best beginning of the stage, less the prefix sum of layers;
    // `best_of_last` the same for stages that begin in the last layers.
    double best = kInfinity;
    double best_of_last = kInfinity;
    double sum = 0.0;
    const int end = latest_[stage + 1];
    for (int layer = earliest_[stage]; layer < end; ++layer) {
      if (layer <= latest_[stage]) {
        best = std::min(best, before[layer] - sum);
        if (layer >= layer_count - last_layers_) {
          best_of_last = std::min(best_of_last, before[layer] - sum);
        }
      }
      sum += costs[setting_.definition_of(layer)];
      const double value = best + sum - (layer < first_layers_ ? room_of_ends : room);
      after[layer + 1] = std::min(value, best_of_last + sum - room_of_ends);
    }
    cells += end - earliest_[stage];
    std::swap(before, after);
  }
  meter.Expand(cells / kCellsOfState);
  return before[layer_count];
}

bool PricedPipeline::HasOneShape() const {
  return setting_.recurrence().is_gpipe() ||
         setting_.recurrence().micro_batch_count() > setting_.depth();
}

bool PricedPipeline::Reach(double cutoff, PartitionShape shape, const std::vector<double>& factors,
                           std::vector<int>& boundaries) const {
  const int depth = setting_.depth();
  const double count = setting_.recurrence().micro_batch_count();
  const bool is_even = shape == PartitionShape::kEqualTimes || HasOneShape();
  boundaries.assign(1, 0);
  double before = 0.0;
  for (int stage = 0; stage < depth; ++stage) {
    const Minima& minima = minima_[stage];
    const double factor = factors.empty() ? 1.0 : factors[stage];
    const int last = setting_.largest_first(stage + 1);
    double forward_backward = 0.0;
    double priced = -prices_[stage] * room_;
    double memory = 0.0;
    double time = 0.0;
    int layer = boundaries.back();
    const int first = layer;
    while (layer < last) {
      const int definition = setting_.definition_of(layer);
      forward_backward += minima.forward_backward[definition];
      priced += minima.passes[definition];
      memory += minima.memories[definition];
      const double next = factor * std::max(forward_backward, priced / passes_[stage]);
      if (memory > room_ || (is_even ? 0.0 : before) + count * next > cutoff) break;
      time = next;
      ++layer;
    }
    if (layer == first || layer < setting_.least_first(stage + 1)) return false;
    before += time + 2.0 * setting_.stage(stage).least_send;
    boundaries.push_back(layer);
  }
  return boundaries.back() == setting_.layer_count();
}

std::vector<int> PricedPipeline::Partition(PartitionShape shape,
                                           const std::vector<double>& factors) const {
  if (!setting_.fixed_boundaries().empty()) {
    return {setting_.fixed_boundaries().begin(), setting_.fixed_boundaries().end()};
  }
  const double all = StageTime(setting_.depth() - 1, 0, setting_.layer_count()) *
                     setting_.recurrence().micro_batch_count();
  std::vector<int> best;
  std::vector<int> boundaries;
  double low = 0.0;
  double high = 8.0 * all / setting_.depth();
  while (!Reach(high, shape, factors, best)) {
    low = high;
    high *= 2.0;
    if (!(high < 1e3 * all)) return {};
  }
  for (int step = 0; step < kReachSteps; ++step) {
    const double middle = 0.5 * (low + high);
    if (Reach(middle, shape, factors, boundaries)) {
      high = middle;
      best = boundaries;
    } else {
      low = middle;
    }
    if (high - low <= 1e-5 * high) break;
  }
  return best;
}

// Returns a lower bound, at most `cutoff` seconds, of the step of plans of less than `cutoff`
// seconds.
double PricedPipeline::BoundBelow(double cutoff, SearchMeter& meter) {
  const double sum = LeastSum(cutoff, meter);
  if (!(sum < kInfinity)) return cutoff;
  double priced = 0.0;
  for (const double price : prices_) priced += std::abs(price * room_);
  return std::min(cutoff, sum + messages_ - (1.0 - kPricedRounding) * (std::abs(sum) + priced));
}

double PricedPipeline::Bound(double enough, SearchMeter& meter) {
  for (int stage = 0; stage < setting_.depth(); ++stage) SetMinima(stage);
  if (!setting_.has_partition() || !FitsSomewhere()) return kInfinity;
  SetForwardBackwardTimes();
  std::vector<int> boundaries = Partition(PartitionShape::kAsInBound, {});
  for (int round = 0; round < kRounds && !boundaries.empty(); ++round) {
    SetPrices(boundaries);
    boundaries = Partition(PartitionShape::kAsInBound, {});
    if (!boundaries.empty()) Balance(boundaries);
    if (!meter.ShouldContinue()) return 0.0;
  }
  double sum = 0.0;
  for (int stage = 0; !boundaries.empty() && stage < setting_.depth(); ++stage) {
    sum += passes_[stage] * StageTime(stage, boundaries[stage], boundaries[stage + 1]);
  }
  // Bisects between steps that are refuted and others; the least sum of plans below a step is a
  // bound too.
  double high = std::min(enough, boundaries.empty() ? kInfinity : kFarAbove * sum);
  double bound = BoundBelow(high, meter);
  if (!(high < kInfinity)) return bound;
  for (int step = 0; step < kBoundSteps && bound < high * kCloseBounds && bound < enough; ++step) {
    const double middle = 0.5 * (bound + high);
    const double below = BoundBelow(middle, meter);
    if (!meter.ShouldContinue()) return 0.0;
    bound = std::max(bound, below);
    if (below < middle) high = middle;
  }
  return bound;
}

}  // namespace parplan
