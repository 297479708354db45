// The times of the collectives of one layer on the devices of one node group, and the part of them
// that computation does not hide. Each `GroupCosts` has one. `LayerPricing` adds its times to the
// cost of a layer, and `CollectivesOfStep` lists its collectives.

#ifndef PARPLAN_PLANNER_COST_LAYER_TRAFFIC_H_
#define PARPLAN_PLANNER_COST_LAYER_TRAFFIC_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/collective_costs.h"
#include "planner/cost/layer_collectives.h"
#include "planner/cost/layer_cost.h"
#include "planner/cost/layer_source.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// The formulas of a layer's traffic. Immutable; any thread may read it. A method aborts if it
// prices a collective whose time is unknown (`CollectiveCosts::Time`).
//
// Everywhere `samples` counts those of a micro-batch on one rank and may be a fraction. `passes`
// are the times of computing the layer without recomputation (`LayerWork::bare`), behind which
// communication can hide. Times and collectives are those of one micro-batch, except for data
// parallelism, partial gradients and tied tables, where they are those of one exchange of all
// gradients or parameters.
//
//   const LayerTraffic::Exchange exchange =
//       traffic.ExpertParallel(definition, strategy, samples, work.bare);  // LayerSource::Work
//   forward += exchange.forward;
class LayerTraffic {
 public:
  // Times of one kind of collectives of one layer, in each pass.
  struct Exchange {
    Seconds forward;
    Seconds backward;
    // The part of `forward` that is done once more in the backward pass if the layer recomputes
    // what the exchange belongs to: all of it, or attention (`RepeatsContext`), or experts.
    Seconds repeated;
  };
  // Times of the collectives of data parallelism. `between_groups` is that of
  // `DataCollectiveLists::between_groups`.
  struct DataExchange : Exchange {
    Seconds between_groups;
  };

  // Makes an object that knows no collective, only to be assigned to.
  LayerTraffic() = default;
  // Prices with `collectives`, in which the shapes of all groups whose times are asked for are
  // resolved (`CollectiveCosts::Resolve`). `overlap_slowdown` is how many times slower computation
  // and communication run while they overlap, at least 1. `expert_imbalance` is the number of
  // tokens of the busiest expert-parallel rank over that of the average one, at least 1.
  LayerTraffic(const PlanningProblem& problem, GroupIndex group, CollectiveCosts collectives,
               double overlap_slowdown, double expert_imbalance = 1.0);

  // Returns the part of the exchange that matrix products do not hide.
  Exchange TensorParallel(const LayerDefinition& definition, const Strategy& strategy,
                          double samples, const LayerPasses& passes) const;
  // Returns the part of the exchange that attention does not hide. Attention hides only the
  // messages of rings.
  Exchange ContextParallel(const LayerDefinition& definition, const Strategy& strategy,
                           double samples, const LayerPasses& passes) const;
  // Returns the part of the exchange that the passes of another micro-batch do not hide, if the
  // runtime overlaps the two.
  Exchange ExpertParallel(const LayerDefinition& definition, const Strategy& strategy,
                          double samples, const LayerPasses& passes) const;
  // Returns the times to gather all parameters (forward) and to reduce all gradients (backward and
  // `between_groups`), before any of it is hidden. `sharding` is used in place of the sharding of
  // `strategy`, here and in `DataCollectives`.
  DataExchange DataParallel(const LayerFootprint& footprint, const Strategy& strategy,
                            const Sharding& sharding) const;
  // Adds to `cost` the part of `exchange` that computation does not hide: what is exchanged for
  // each micro-batch to `forward`, `backward` and `time`, what is exchanged once a step to
  // `gradient_sync`. `forward` and `backward` are the times of computing the layer for one
  // micro-batch, recomputation included. `has_pipeline` says whether there are several stages.
  void AddDataParallel(LayerKind kind, const DataExchange& exchange, ShardingLevel level,
                       bool has_pipeline, Seconds forward, Seconds backward, LayerCost& cost) const;

  // Return the collectives that these methods price, before any of it is hidden.
  PassCollectives TensorCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                    double samples) const;
  PassCollectives ContextCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                     double samples) const;
  PassCollectives ExpertCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                    double samples) const;
  DataCollectiveLists DataCollectives(const LayerFootprint& footprint, const Strategy& strategy,
                                      const Sharding& sharding) const;
  // Lists the all-reduce, once a step, over tensor-parallel ranks with sequence parallelism, each
  // of which has a part of the gradients of parameters that all of them hold, such as norms. Empty
  // for runtimes whose traits leave it out (`sums_partial_gradients`).
  CollectiveList PartialGradientCollectives(const LayerDefinition& definition,
                                            const Strategy& strategy) const;
  // Returns the time of all calls of a list, one after the other.
  Seconds TimeOf(const CollectiveList& calls) const;
  // Returns whether a recomputation repeats the collectives of context parallelism for a
  // transformer layer.
  bool RepeatsContext(const Strategy& strategy, const Recomputation& recomputation) const;
  // Lists the collectives of tensor-parallel ranks that recomputing `modules` repeats.
  CollectiveList ModuleCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                   double samples, RecomputeModules modules) const;

  // Returns whether the layer uses the table that embedding and tied head share.
  bool SharesTable(const LayerDefinition& definition) const;
  // Returns whether each tensor-parallel rank holds the layer's whole table, not a part of it.
  bool KeepsTableWhole(const LayerDefinition& definition) const;
  // Returns the time to sum the gradients of the shared table over its two copies, one on the first
  // and one on the last stage. REQUIRES, here and for `TiedTableCollectives`, unchecked:
  // `pipeline_parallel_degree` is above 1.
  Seconds TiedTableSync(const LayerFootprint& footprint, int pipeline_parallel_degree) const;

  // Returns the bytes that a rank sends to the next stage, a fraction if `samples` is one.
  double MessageBytes(const LayerDefinition& definition, const Strategy& strategy,
                      double samples) const;
  // Returns the bytes of a layer's output that one rank has once its tensor-parallel group has
  // gathered it.
  double OutputBytes(const LayerDefinition& definition, const Strategy& strategy,
                     double samples) const;

  // Lists the exchange of the table's gradient between the first and the last stage: an all-reduce
  // or, if the links are unknown, a message that takes as long.
  CollectiveList TiedTableCollectives(const LayerFootprint& footprint,
                                      int pipeline_parallel_degree) const;

  // The costs that the constructor was given.
  const CollectiveCosts& collectives() const { return collectives_; }

 private:
  // Returns whether each of the layer's tensor-parallel collectives runs beside a product that
  // reads what it gathers or writes what it scatters: dense layers with sequence parallelism, if
  // the runtime splits them. Latent attention, experts and state spaces have others, too. Of layers
  // with frozen weights no gradient of weights hides the sums, and adapters gather their input once
  // more.
  bool SplitsCollectives(const LayerDefinition& definition, const Strategy& strategy) const;
  void AddHeadExchange(const LayerDefinition& definition, const Strategy& strategy, double samples,
                       PassCollectives& calls) const;
  PassCollectives RingCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                  double samples) const;
  PassCollectives GatherCollectives(const LayerDefinition& definition, const Strategy& strategy,
                                    double samples) const;
  Exchange ExchangeOf(const PassCollectives& calls) const;
  // Appends a collective over one of `share_count` shares of `bytes` of gradients or parameters,
  // all of which are in buckets of the runtime's size or in one message.
  void AddBuckets(Collective collective, const GroupShape& group, double bytes, bool in_buckets,
                  CollectiveList& calls, int share_count = 1) const;
  // Returns the time that `communication` adds to `compute`; all of it unless they overlap.
  Seconds Exposed(Seconds compute, Seconds communication, bool overlaps) const;
  // Returns the bytes of an activation that sequence parallelism gathers, over those in memory:
  // inputs of linear maps are quantised before they are gathered (Transformer Engine,
  // `gather_along_first_dim` with a quantizer; torchao, `Float8ColwiseParallel`).
  double GatheredShare(const LayerDefinition& definition) const;
  // Bytes of one activation or parameter in a message.
  double ElementBytes() const {
    return static_cast<double>(BytesPerElement(TraitsOf(precision_).communication));
  }

  Precision precision_ = Precision::kBf16;
  RuntimeTraits runtime_;
  int device_count_ = 1;
  int devices_per_node_ = 1;
  // Vocabulary size of the shared table if the head is tied to the embedding, else 0.
  int tied_vocabulary_size_ = 0;
  double overlap_slowdown_ = 1.0;
  double expert_imbalance_ = 1.0;
  CollectiveCosts collectives_;
};

// Returns the time until both `compute` and `communication` are done if they start together and
// each runs `slowdown` times slower while the other runs: max(a, d) + (k - 1) * min(a, d)
// (docs/papers.md 1.5). REQUIRES: slowdown >= 1, which is not checked.
Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_TRAFFIC_H_
