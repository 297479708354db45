#include "planner/planners/exact/interleaved/interleaved_rounding.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/planners/exact/interleaved/interleaved_plan.h"
#include "planner/planners/exact/interleaved/interleaved_relaxation.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Subgradient steps towards better prices: as many as before a candidate's plans are searched
// (`kSearchSteps` of interleaved_search.cc). Fewer leave weaker bounds and worse plans, more take
// longer for each partition. Not measured for other numbers.
constexpr int kPriceSteps = 120;
// Number of layouts in which plans are rounded, and the shares of memory that are tried: less than
// all of it leaves room for kept outputs and other memory the prices do not include. Not measured.
constexpr size_t kMaxLayouts = 2;
constexpr double kMemoryShares[] = {1.0, 0.99, 0.97, 0.93};
// States a bound of a partition counts on the meter. It stands for the time a bound takes compared
// with a label; not measured.
constexpr int64_t kStatesOfBound = 64;

// Returns the layouts in which everything is cheapest at the best multipliers, cheapest first.
std::vector<int> CheapestLayouts(const PipelineSetting& setting, const MaskedOptions& masked,
                                 const InterleavedRelaxation::Dual& dual) {
  const int layout_count = setting.table().layout_count();
  std::vector<std::pair<double, int>> costs(layout_count);
  for (int layout = 0; layout < layout_count; ++layout) costs[layout].second = layout;
  std::vector<double> least(layout_count);
  for (const int definition : masked.order) {
    least.assign(layout_count, kInfinity);
    double any = kInfinity;
    for (const int index : masked.allowed[definition]) {
      const StageOption& option = setting.table().options(definition)[index];
      const double cost = dual.weights[definition].Of(ItemOf(option, index));
      least[option.layout] = std::min(least[option.layout], cost);
      any = std::min(any, cost);
    }
    for (int layout = 0; layout < layout_count; ++layout) {
      costs[layout].first += least[layout] < kInfinity ? least[layout] : any;
    }
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> layouts;
  for (const auto& [cost, layout] : costs) layouts.push_back(layout);
  if (layouts.size() > kMaxLayouts) layouts.resize(kMaxLayouts);
  return layouts;
}

// Returns whether the plan fits and is within the cutoff.
bool Try(const PipelineSetting& setting, const InterleavedPartition& partition,
         const std::vector<int>& chosen, PlanEvaluator& evaluator, InterleavedFinds& finds) {
  if (!NeighboursAgree(setting, chosen)) return false;
  Plan plan = InterleavedPlan(setting, partition.layer_counts, chosen, /*group_size=*/0);
  const PlanScore score = evaluator.Evaluate(plan);
  if (score.peak_memory_upper > setting.problem().usable_memory()) return false;
  if (score.step >= finds.cutoff) return true;
  Prediction prediction = evaluator.Predict(plan);
  finds.plans.Offer({std::move(plan), std::move(prediction)});
  return true;
}

void RoundPartition(const PipelineSetting& setting, const OptionMask& mask,
                    const MaskedOptions& masked, const InterleavedPartition& partition,
                    const InterleavedRelaxation& prices, PlanEvaluator& evaluator,
                    InterleavedFinds& finds, SearchMeter& meter) {
  const double overhead = setting.costs().step_overhead().value();
  for (const int layout : CheapestLayouts(setting, masked, prices.duals().front())) {
    const LayerMenus menus(setting, mask, meter, layout);
    if (!meter.ShouldContinue()) return;
    InterleavedRelaxation restricted(setting, menus, prices.loads(),
                                     setting.candidate().micro_batch_count);
    const double cutoff = CutoffOf(setting, finds) - overhead;
    if (restricted.QuickBound() >= cutoff || restricted.Improve(cutoff, kPriceSteps) >= cutoff)
      continue;
    for (const double share : kMemoryShares) {
      const std::optional<std::vector<int>> chosen = restricted.Round(share);
      if (chosen.has_value() && Try(setting, partition, *chosen, evaluator, finds)) break;
    }
  }
}

}  // namespace

void RoundInterleaved(const PipelineSetting& setting, const OptionMask& mask,
                      const MaskedOptions& masked, const LayerMenus& menus,
                      const std::vector<InterleavedPartition>& partitions, PlanEvaluator& evaluator,
                      InterleavedFinds& finds, SearchMeter& meter) {
  const double overhead = setting.costs().step_overhead().value();
  const int64_t count = setting.candidate().micro_batch_count;
  struct Bounded {
    double bound = 0.0;
    const InterleavedPartition* partition = nullptr;
  };
  std::vector<Bounded> order;
  for (const InterleavedPartition& partition : partitions) {
    if (!FitsPassLimit(setting.candidate().micro_batch_count,
                       static_cast<int>(partition.layer_counts.size()))) {
      continue;
    }
    InterleavedRelaxation prices(setting, menus,
                                 InterleavedLoads(setting, partition.layer_counts, count), count);
    order.push_back({prices.QuickBound() + overhead, &partition});
    meter.Expand(kStatesOfBound);
    if (!meter.ShouldContinue()) {
      finds.least_unseen = 0.0;
      return;
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Bounded& a, const Bounded& b) { return a.bound < b.bound; });
  for (const Bounded& each : order) {
    const double cutoff = CutoffOf(setting, finds);
    if (each.bound >= cutoff) break;
    if (!meter.ShouldContinue()) {
      finds.least_unseen = std::min(finds.least_unseen, each.bound);
      break;
    }
    InterleavedRelaxation prices(
        setting, menus, InterleavedLoads(setting, each.partition->layer_counts, count), count);
    prices.QuickBound();
    const double bound = prices.Improve(cutoff - overhead, kPriceSteps) + overhead;
    meter.Expand(kStatesOfBound);
    if (bound >= cutoff) continue;
    RoundPartition(setting, mask, masked, *each.partition, prices, evaluator, finds, meter);
    finds.least_unseen = std::min(finds.least_unseen, bound);
  }
}

}  // namespace parplan
