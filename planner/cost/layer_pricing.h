// One layer under strategies that have most in common.

#ifndef PARPLAN_PLANNER_COST_LAYER_PRICING_H_
#define PARPLAN_PLANNER_COST_LAYER_PRICING_H_

#include <array>
#include <cstdint>
#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/cost/layer_cost.h"
#include "planner/cost/layer_source.h"
#include "planner/model/strategy.h"

namespace parplan {

// The costs of one layer definition under the strategies that differ from one in levels
// and rank order only: what a device computes and holds is worked out once. Each cost is
// what `CostModel::CostOfLayer` says, to the last bit, at about a tenth of its price.
//
// Keeps a reference to the cost model. Not to be used by two threads at once.
class LayerPricing {
 public:
  // Arguments as of `CostModel::CostOfLayer`; levels of `strategy` are not looked at.
  // `with_selective_recompute`: that may be asked for.
  LayerPricing(const CostModel& costs, int definition_index, const Strategy& strategy,
               int64_t micro_batch_size, int pipeline_parallel_degree,
               bool with_selective_recompute);

  // Whether `strategy` differs from the one given in rank order and levels only.
  bool Serves(const Strategy& strategy) const;
  // From here on costs are those of the other order. REQUIRES: it is canonical.
  void UseRankOrder(RankOrder order);

  const LayerFootprint& footprint();
  LayerCost CostOf(ShardingLevel sharding, RecomputeLevel recompute);

  // Forward and backward of one micro-batch without either level.
  struct Passes {
    Seconds forward;
    Seconds backward;
  };
  Passes BarePasses();

 private:
  using Exchange = CostModel::Exchange;
  // Passes with all but data-parallel traffic.
  struct Timed {
    Seconds forward;
    Seconds backward;
    TimeItems items;
    // Behind which data-parallel traffic hides.
    Seconds busy_forward;
    Seconds busy_backward;
  };

  void PriceExchanges();
  const Timed& TimeOf(RecomputeLevel recompute);
  const Exchange& DataParallelOf(ShardingLevel sharding);

  const CostModel& costs_;
  const LayerSource& layer_;
  int pipeline_parallel_degree_;
  double samples_;
  Strategy strategy_;
  LayerWork work_;
  // Once asked for.
  std::optional<LayerFootprint> footprint_;
  Bytes message_;
  Exchange tensor_;
  Exchange context_;
  Exchange expert_;
  // [sharding level], once asked for.
  std::array<std::optional<Exchange>, 4> data_;
  // [recompute level], once asked for.
  std::array<std::optional<Timed>, 3> timed_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_PRICING_H_
