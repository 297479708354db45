// Least times over the fastest strategies (`LeastTimes` of option_table.h).

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "planner/cost/layer_pricing.h"
#include "planner/model/strategy_fields.h"
#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

constexpr LayerPricing::Passes kUnknown = {Seconds::Of(-1.0), Seconds::Of(-1.0)};

}  // namespace

LeastTimes LeastTimesOf(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_size) {
  LeastTimesMemo memo;
  return LeastTimesFinder(problem, costs, space, memo)
      .Find(pipeline_parallel_degree, micro_batch_size);
}

// `Work` leaves out the sharding and recomputation that bare strategies lack, sequence parallelism,
// which follows from the definition and the tensor-parallel degree, and the data-parallel degree,
// whose part in the time is in `samples`.
static_assert(kStrategyFieldCount == 13, "say whether the new field changes the work of a rank");

std::vector<LeastTimesFinder::NumberedStrategy> LeastTimesFinder::StrategiesOf(
    int definition, int pipeline_parallel_degree, int64_t micro_batch_size) {
  std::vector<NumberedStrategy> strategies;
  for (const Strategy& strategy :
       space_.BareStrategies(definition, pipeline_parallel_degree, micro_batch_size)) {
    const LeastTimesMemo::Work work = {
        .samples = micro_batch_size / strategy.data_parallel_degree,
        .tensor_parallel_degree = strategy.tensor_parallel_degree,
        .context_parallel_degree = strategy.context_parallel_degree,
        .expert_parallel_degree = strategy.expert_parallel_degree,
        .expert_tensor_parallel_degree = strategy.expert_tensor_parallel_degree,
        .context_kind = strategy.context_kind,
        .tensor_stride = strategy.tensor_stride()};
    const int number = static_cast<int>(memo_.works_.size());
    strategies.push_back({strategy, memo_.works_.try_emplace(work, number).first->second});
  }
  return strategies;
}

LeastTimes LeastTimesFinder::Find(int pipeline_parallel_degree, int64_t micro_batch_size) {
  const ModelSpec& model = problem_.model();
  const size_t count = model.layer_definitions().size();
  LeastTimes least;
  least.forward.assign(count, Seconds::Infinite());
  least.backward.assign(count, Seconds::Infinite());
  least.forward_and_backward.assign(count, Seconds::Infinite());
  memo_.passes_.resize(count);
  // [first definition with the same bare strategies] those strategies.
  std::map<int, std::vector<NumberedStrategy>> strategies;
  for (const ModelLayerRun& run : model.layer_runs()) {
    const int definition = run.definition_index;
    if (least.forward[definition].is_finite()) continue;
    const auto [listed, is_new] = strategies.try_emplace(space_.DefinitionLike(definition));
    if (is_new) {
      listed->second = StrategiesOf(definition, pipeline_parallel_degree, micro_batch_size);
    }
    std::vector<LayerPricing::Passes>& passes_of_work = memo_.passes_[definition];
    passes_of_work.resize(memo_.works_.size(), kUnknown);
    std::optional<LayerPricing> pricing;
    for (const auto& [strategy, work] : listed->second) {
      LayerPricing::Passes& passes = passes_of_work[work];
      if (passes.forward < Seconds()) {
        if (pricing.has_value() && pricing->Serves(strategy)) {
          pricing->UseRankOrder(strategy.rank_order);
        } else {
          pricing.emplace(costs_.searched_group(), definition, strategy, micro_batch_size,
                          pipeline_parallel_degree, RepeatedParts::kWholeLayer);
        }
        passes = pricing->BarePasses();
      }
      least.forward[definition] = std::min(least.forward[definition], passes.forward);
      least.backward[definition] = std::min(least.backward[definition], passes.backward);
      least.forward_and_backward[definition] =
          std::min(least.forward_and_backward[definition], passes.forward + passes.backward);
    }
    if (!least.forward[definition].is_finite()) {
      least.usable = false;
      return least;
    }
  }
  return least;
}

}  // namespace parplan
