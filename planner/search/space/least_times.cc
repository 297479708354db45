// Bounds from the fastest strategies (`LeastTimes` of option_table.h).

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/cost/layer_pricing.h"
#include "planner/search/space/option_table.h"

namespace parplan {

LeastTimes LeastTimesOf(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_size) {
  return LeastTimesFinder(problem, costs, space).Find(pipeline_parallel_degree, micro_batch_size);
}

LeastTimes LeastTimesFinder::Find(int pipeline_parallel_degree, int64_t micro_batch_size) {
  const ModelSpec& model = problem_.model();
  const size_t count = model.layer_definitions().size();
  LeastTimes least;
  least.forward.assign(count, Seconds::Infinite());
  least.backward.assign(count, Seconds::Infinite());
  least.forward_and_backward.assign(count, Seconds::Infinite());
  for (const ModelLayerRun& run : model.layer_runs()) {
    const int definition = run.definition_index;
    if (least.forward[definition].is_finite()) continue;
    std::optional<LayerPricing> pricing;
    for (const Strategy& strategy :
         space_.BareStrategies(definition, pipeline_parallel_degree, micro_batch_size)) {
      const Work work = {.definition_index = definition,
                         .samples = micro_batch_size / strategy.data_parallel_degree,
                         .tensor_parallel_degree = strategy.tensor_parallel_degree,
                         .context_parallel_degree = strategy.context_parallel_degree,
                         .expert_parallel_degree = strategy.expert_parallel_degree,
                         .context_kind = strategy.context_kind,
                         .tensor_stride = strategy.tensor_stride()};
      const auto [known, is_new] = passes_.try_emplace(work);
      if (is_new) {
        if (pricing.has_value() && pricing->Serves(strategy)) {
          pricing->UseRankOrder(strategy.rank_order);
        } else {
          pricing.emplace(costs_, definition, strategy, micro_batch_size, pipeline_parallel_degree,
                          /*with_selective_recompute=*/false);
        }
        known->second = pricing->BarePasses();
      }
      const LayerPricing::Passes& passes = known->second;
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
