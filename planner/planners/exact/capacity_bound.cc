#include "planner/planners/exact/capacity_bound.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "planner/cost/layer_pricing.h"
#include "planner/model/schedule_traits.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Relative rounding error that the sums of layers and capacities may have.
constexpr double kCapacityRounding = 1e-9;

// Returns the indices of the commonest transformer definitions, with their layers.
std::vector<std::pair<int, int>> CommonestOf(const ModelSpec& model) {
  std::map<int, int> counts;
  for (const ModelLayerRun& run : model.layer_runs()) {
    if (IsTransformer(model.layer_definitions()[run.definition_index].kind)) {
      counts[run.definition_index] += run.layer_count;
    }
  }
  std::vector<std::pair<int, int>> commonest(counts.begin(), counts.end());
  std::stable_sort(commonest.begin(), commonest.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (commonest.size() > LeastCosts::kMaxDefinitions) commonest.resize(LeastCosts::kMaxDefinitions);
  return commonest;
}

// Adds the least costs of a definition. Returns the most bytes that its transient memory is below
// 0.
double AddLeastCosts(const StrategySpace& space, const CostModel& costs, int definition,
                     int pipeline_parallel_degree, int64_t micro_batch_size,
                     std::vector<LeastCost>& least) {
  const GroupCosts& group = costs.searched_group();
  double most_freed = 0.0;
  std::optional<LayerPricing> pricing;
  for (Strategy strategy :
       space.BareStrategies(definition, pipeline_parallel_degree, micro_batch_size)) {
    if (pricing.has_value() && pricing->Serves(strategy)) {
      pricing->UseRankOrder(strategy.rank_order);
    } else {
      pricing.emplace(group, definition, strategy, micro_batch_size, pipeline_parallel_degree,
                      RepeatedParts::kWholeLayer);
    }
    const LayerFootprint& footprint = pricing->footprint();
    const auto samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
    // Recomputation frees no states: it only keeps less, which gradients may take the place of.
    double states = kInfinity;
    for (const ShardingLevel level :
         space.ShardingLevels(definition, strategy, pipeline_parallel_degree)) {
      strategy.sharding_level = level;
      states = std::min(states, group.MemoryOf(footprint, strategy, samples).states().as_double());
    }
    if (states == kInfinity) continue;
    most_freed =
        std::max(most_freed, Bytes::Ceil(samples * footprint.activations.freed).as_double());
    for (const Recomputation& recomputation : space.Recomputations(footprint)) {
      // Recomputing a part takes no less than recomputing nothing.
      const bool is_full = recomputation.level == RecomputeLevel::kFull;
      const LayerPricing::Passes passes =
          is_full ? pricing->PassesWith(recomputation) : pricing->BarePasses();
      least.push_back(
          {.time = (passes.forward + passes.backward).value(),
           .states = states,
           .kept = Bytes::Ceil(samples * footprint.activations.Kept(recomputation)).as_double()});
    }
  }
  return most_freed;
}

// Removes costs that are no less than those of another in all three members. The first is one of
// the least time then.
void DropDominated(std::vector<LeastCost>& costs) {
  std::sort(costs.begin(), costs.end(), [](const LeastCost& a, const LeastCost& b) {
    return std::tie(a.time, a.states, a.kept) < std::tie(b.time, b.states, b.kept);
  });
  size_t kept_count = 0;
  for (const LeastCost& cost : costs) {
    const bool is_dominated =
        std::any_of(costs.begin(), costs.begin() + static_cast<int64_t>(kept_count),
                    [&cost](const LeastCost& other) {
                      return other.states <= cost.states && other.kept <= cost.kept;
                    });
    if (!is_dominated) costs[kept_count++] = cost;
  }
  costs.resize(kept_count);
}

// Returns the micro-batches that a device has in flight, at least, of each layer that it holds.
int64_t InFlightOf(const PipelineCandidate& candidate, int device) {
  const int depth = candidate.pipeline_parallel_degree;
  return TraitsOf(candidate.schedule).has_virtual_stages
             ? LeastInFlight(device, depth)
             : InFlightMicroBatchCount(candidate.schedule, depth, device,
                                       candidate.micro_batch_count);
}

// A straight part of the worth that devices can hold, by the time they have.
struct Part {
  // Worth by second, and the seconds for one micro-batch of all devices alike together.
  double slope = 0.0;
  double time = 0.0;
};

struct Point {
  double time = 0.0;
  double worth = 0.0;
};

// Appends the parts of the hull of one device for times up to `most_time`, as many times as there
// are devices alike. Returns the worth that these devices hold if time does not matter.
double AddParts(absl::Span<const LeastCosts::Layers> definitions, double room, double in_flight,
                double device_count, double most_time, std::vector<Part>& parts) {
  std::vector<Point> points;
  for (const LeastCosts::Layers& layers : definitions) {
    const double worth = layers.costs.front().time;
    for (const LeastCost& cost : layers.costs) {
      const double bytes = std::max(1.0, cost.states + in_flight * cost.kept);
      // An option that never fits by itself is in no plan.
      if (bytes <= room) points.push_back({room / bytes * cost.time, room / bytes * worth});
    }
  }
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.time < b.time || (a.time == b.time && a.worth > b.worth);
  });
  std::vector<Point> hull = {{}};
  for (const Point& point : points) {
    if (point.worth <= hull.back().worth) continue;
    while (hull.size() > 1) {
      const Point& middle = hull.back();
      const Point& first = hull[hull.size() - 2];
      if ((middle.worth - first.worth) * (point.time - first.time) >
          (point.worth - first.worth) * (middle.time - first.time)) {
        break;
      }
      hull.pop_back();
    }
    hull.push_back(point);
  }
  for (size_t k = 1; k < hull.size() && hull[k - 1].time < most_time; ++k) {
    const double time = hull[k].time - hull[k - 1].time;
    const double slope = time > 0.0 ? (hull[k].worth - hull[k - 1].worth) / time : kInfinity;
    parts.push_back({slope, std::min(time, most_time - hull[k - 1].time) * device_count});
  }
  return hull.back().worth * device_count;
}

// Returns `CapacityBound` from some of the definitions alone.
Seconds BoundOfLayers(absl::Span<const LeastCosts::Layers> definitions, double room,
                      const std::map<int64_t, int>& devices_by_in_flight, double device_time,
                      double all_time, Seconds cutoff) {
  double needed = 0.0;
  for (const LeastCosts::Layers& layers : definitions) {
    needed += layers.costs.front().time * layers.layer_count;
  }
  needed *= 1.0 - kCapacityRounding;
  std::vector<Part> parts;
  double most = 0.0;
  for (const auto& [in_flight, device_count] : devices_by_in_flight) {
    most += AddParts(definitions, room, static_cast<double>(in_flight), device_count, device_time,
                     parts);
  }
  if (most < needed) return Seconds::Infinite();
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.slope > b.slope; });
  double held = 0.0;
  double time_left = all_time;
  for (const Part& part : parts) {
    if (time_left <= 0.0) break;
    const double time = std::min(part.time, time_left);
    // Layers that take no time are worth nothing, so slopes are finite.
    held += part.slope * time;
    time_left -= time;
  }
  return held < needed ? cutoff : Seconds();
}

}  // namespace

LeastCosts LeastCostsOf(const StrategySpace& space, const CostModel& costs,
                        int pipeline_parallel_degree, int64_t micro_batch_size) {
  LeastCosts least;
  for (const auto& [definition, layer_count] : CommonestOf(space.problem().model())) {
    LeastCosts::Layers& layers = least.definitions.emplace_back();
    layers.layer_count = layer_count;
    const double freed = AddLeastCosts(space, costs, definition, pipeline_parallel_degree,
                                       micro_batch_size, layers.costs);
    if (layers.costs.empty()) return {};
    DropDominated(layers.costs);
    least.most_freed = std::max(least.most_freed, freed);
  }
  return least;
}

Seconds CapacityBound(const StrategySpace& space, const CostModel& costs,
                      const LeastCosts& least_costs, const PipelineCandidate& candidate,
                      Seconds cutoff) {
  if (least_costs.definitions.empty()) return Seconds();
  const int depth = candidate.pipeline_parallel_degree;
  const Bytes budget = costs.searched_group().overheads().TensorBudget(
      space.problem().usable_memory(), depth, space.problem().device_count() / depth);
  const double room = budget.as_double() + least_costs.most_freed;
  const double step = (cutoff - costs.step_overhead()).value();
  const double device_time = step / static_cast<double>(candidate.micro_batch_count);
  const double all_time =
      TraitsOf(candidate.schedule).has_virtual_stages
          ? device_time * depth
          : step / SpreadStepBound(candidate.schedule, depth, candidate.micro_batch_count,
                                   /*total=*/1.0, /*longest=*/0.0);
  std::map<int64_t, int> devices_by_in_flight;
  for (int device = 0; device < depth; ++device) {
    ++devices_by_in_flight[InFlightOf(candidate, device)];
  }
  const absl::Span<const LeastCosts::Layers> all = least_costs.definitions;
  const Seconds bound =
      BoundOfLayers(all, room, devices_by_in_flight, device_time, all_time, cutoff);
  if (all.size() == 1 || bound > Seconds()) return bound;
  return BoundOfLayers(all.subspan(0, 1), room, devices_by_in_flight, device_time, all_time,
                       cutoff);
}

}  // namespace parplan
