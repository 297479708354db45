// Costs of one layer under strategies that differ in few respects. `GroupCosts::CostOfLayer`, the
// option tables and least times of the search (planner/search/space) and `LeastCostsOf`
// (planner/planners/exact/capacity_bound.h) price by it.

#ifndef PARPLAN_PLANNER_COST_LAYER_PRICING_H_
#define PARPLAN_PLANNER_COST_LAYER_PRICING_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/cost/group_costs.h"
#include "planner/cost/layer_cost.h"
#include "planner/cost/layer_source.h"
#include "planner/cost/layer_traffic.h"
#include "planner/model/strategy.h"

namespace parplan {

// Prices one layer definition on one node group under all strategies that differ from a given one
// only in sharding, recompute level and rank order, so that the work they share is done once.
// Each cost equals that of `GroupCosts::CostOfLayer` to the last bit and takes about a tenth of its
// time.
//
//   LayerPricing pricing(group, definition_index, strategy, micro_batch_size,
//                        pipeline_parallel_degree, RepeatedParts::kAttention);
//   for (ShardingLevel level : levels) Use(pricing.CostOf(level, RecomputeLevel::kNone));
//
// Keeps a reference to the costs. One thread at a time may use it.
class LayerPricing {
 public:
  // Takes the arguments of `GroupCosts::CostOfLayer`; the levels of `strategy` are ignored. Aborts
  // if its data-parallel degree does not divide the micro-batch. `CostOf` and `PassesWith` may be
  // called with a recomputation only if `parts` include those of it (`PartsOf`), which is not
  // checked.
  LayerPricing(const GroupCosts& costs, int definition_index, const Strategy& strategy,
               int64_t micro_batch_size, int pipeline_parallel_degree, RepeatedParts parts);

  // Returns whether `strategy` differs from the given one only in rank order and levels.
  bool Serves(const Strategy& strategy) const;
  // Makes later calls return costs for `order`. REQUIRES: the strategy with it is canonical,
  // which is not checked.
  void UseRankOrder(RankOrder order);

  // Returns the footprint of the strategy, which is the same for all levels and rank orders; the
  // reference is valid as long as this object.
  const LayerFootprint& footprint();
  // Returns the cost with this sharding and recomputation. The latter has no effect on layers that
  // are no transformer layers.
  LayerCost CostOf(const Sharding& sharding, const Recomputation& recomputation);

  // Times of one micro-batch without sharding or recomputation: computation, waiting for the host,
  // and the traffic that computation does not hide, without that of data parallelism.
  struct Passes {
    Seconds forward;
    Seconds backward;
  };
  Passes BarePasses() { return PassesWith(RecomputeLevel::kNone); }
  // Returns the same times with a recomputation. Sharding only adds to them (`CostOf`).
  Passes PassesWith(const Recomputation& recomputation);

 private:
  using Exchange = LayerTraffic::Exchange;
  using DataExchange = LayerTraffic::DataExchange;
  // Times of both passes with all traffic but that of data parallelism.
  struct Timed {
    Seconds forward;
    Seconds backward;
    Seconds backward_weights;
    TimeItems items;
    // Computation that hides data-parallel traffic.
    Seconds busy_forward;
    Seconds busy_backward;
  };

  void PriceExchanges();
  const Timed& TimeOf(const Recomputation& recomputation);
  // Returns the exchange of a sharding; valid until another sharding is asked for.
  const DataExchange& DataParallelOf(Sharding sharding);

  const GroupCosts& costs_;
  const LayerSource& layer_;
  int pipeline_parallel_degree_;
  double samples_;
  Strategy strategy_;
  LayerWork work_;
  // Empty until it is needed.
  std::optional<LayerFootprint> footprint_;
  Bytes message_;
  Exchange tensor_;
  Exchange context_;
  Exchange expert_;
  // [sharding level] of shardings without a degree, empty until needed; and those with one.
  std::array<std::optional<DataExchange>, 4> data_;
  std::vector<std::pair<Sharding, DataExchange>> hybrid_data_;
  // [recompute level] but for `kModules`, empty until needed.
  std::array<std::optional<Timed>, 3> timed_;
  // [set of modules], empty until needed.
  std::vector<std::optional<Timed>> timed_modules_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_PRICING_H_
