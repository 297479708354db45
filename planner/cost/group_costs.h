// Time and memory of a model's layers on the devices of one node group, measured or estimated.
//
// The model is that of Galvatron (docs/papers.md 1.5): time of computation, time of
// communication, and a slow-down while both overlap. It differs in four points. Times
// are tables over size, or sums over single operations, instead of one bandwidth. Sharded data
// parallelism gathers parameters in the forward and the backward pass, at the same time as
// computation as long as that lasts. Memory is itemised (rank_memory.h). Every number that was not
// measured is listed (`CostModel::estimated_items`). docs/cost-model.md has each formula.
//
//   const GroupCosts& group = costs.group(problem.topology().GroupOfRank(stage.first_rank));
//   const LayerCost cost = group.CostOfLayer(definition_index, strategy, micro_batch_size,
//                                            pipeline_parallel_degree);
//   total += cost.forward + cost.backward;

#ifndef PARPLAN_PLANNER_COST_GROUP_COSTS_H_
#define PARPLAN_PLANNER_COST_GROUP_COSTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/cost/layer_collectives.h"
#include "planner/cost/layer_cost.h"
#include "planner/cost/layer_needs.h"
#include "planner/cost/layer_source.h"
#include "planner/cost/layer_traffic.h"
#include "planner/cost/memory_overheads.h"
#include "planner/cost/size_curve.h"
#include "planner/model/calibration.h"
#include "planner/model/coefficients.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

struct ProblemNeeds;  // problem_needs.h

// The costs of stages whose ranks all belong to one node group. Made by `CostModel::Create` and
// part of the `CostModel`. Immutable; any thread may read it.
//
// In all functions `definition_index` is an index into `ModelSpec::layer_definitions`, which is not
// checked. `micro_batch_size` is the number of samples of one micro-batch over the whole stage, a
// multiple of the data-parallel degree of each strategy; only `CostOfLayer` checks it. If a
// function takes `level` in addition to `strategy`, it ignores the sharding level of the strategy.
class GroupCosts {
 public:
  // Returns the cost of a layer in a plan of `pipeline_parallel_degree` stages. REQUIRES:
  // `micro_batch_size` is a multiple of `strategy.data_parallel_degree`; aborts otherwise. May also
  // abort for degrees that no plan of the problem can have, because their numbers were not looked
  // up. A call takes some microseconds and allocates nothing, except for recomputation of modules
  // and hybrid sharding.
  LayerCost CostOfLayer(int definition_index, const Strategy& strategy, int64_t micro_batch_size,
                        int pipeline_parallel_degree) const;

  // Returns the time, forward and backward together, to bring the output of a layer under `from`
  // into the layout in which a layer of `definition_index` under `to` reads it. 0 if every rank
  // holds the same part under both (docs/papers.md 1.4).
  Seconds TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                         int64_t micro_batch_size) const;

  // The part of a transition that depends on only one of its two strategies.
  struct ReshardingTimes {
    // One all-gather, in one pass: each rank of a tensor-parallel group holds a part of the
    // activations of its samples and receives the rest.
    Seconds gather;
    // The time of `gather` and of two all-to-alls, one in each pass, which bring the tokens of all
    // context-parallel ranks together or divide them again.
    Seconds regroup;
    // An all-to-all of the stage's ranks, after which each rank holds its part; 0 unless the
    // runtime changes layouts by it (`RuntimeTraits::exchanges_layouts`). If it is above 0,
    // `TransitionTime` uses it and ignores the other two.
    Seconds exchange;
  };
  // Returns the resharding times of `strategy` before a layer of `definition_index`.
  ReshardingTimes ReshardingTimesOf(int definition_index, const Strategy& strategy,
                                    int64_t micro_batch_size) const;
  // Combines the resharding times of both strategies into `TransitionTime` above. REQUIRES,
  // unchecked: they are those of one definition and one `micro_batch_size`.
  static Seconds TransitionTime(const Strategy& from, const Strategy& to,
                                const ReshardingTimes& resharding_from,
                                const ReshardingTimes& resharding_to);

  // Lists the collectives of one change of layout, in both passes: those that `TransitionTime`
  // prices.
  CollectiveList TransitionCollectives(int definition_index, const Strategy& from,
                                       const Strategy& to, int64_t micro_batch_size) const;

  // Lists the collectives of one message to the next stage: those that `MessageTime` prices.
  CollectiveList MessageCollectives(int definition_index, const Strategy& from, int rank_count,
                                    bool leaves_node, int64_t micro_batch_size) const;
  // Returns the time, one way, of the message that brings one micro-batch to the next stage, which
  // is on the same group and has `rank_count` ranks, as this one has. `leaves_node` means that some
  // rank's counterpart is on another node. It is the part of `CostModel::SendTime` that does not
  // depend on the strategy of the next stage; the rest is half the `TransitionTime`.
  Seconds MessageTime(int definition_index, const Strategy& from, int rank_count, bool leaves_node,
                      int64_t micro_batch_size) const;
  // Returns the size of the message of one micro-batch that one rank sends to the next stage if the
  // last layer of its own stage is of `definition_index` under `strategy`.
  Bytes MessageSize(int definition_index, const Strategy& strategy, int64_t micro_batch_size) const;
  // Returns the memory of a stage without layers, which sends on the messages that it receives. It
  // keeps the message of each micro-batch in flight, as a layer keeps its input.
  LayerMemory MemoryOfPassage(int definition_index, const Strategy& strategy,
                              int64_t micro_batch_size) const;

  // Returns whether strategies with tensor parallelism use sequence parallelism on layers of
  // `definition_index`. They do if the memory of these layers was measured that way or, where it
  // was not measured with tensor parallelism, if the problem allows estimates and the runtime has
  // it. Opaque layers never do.
  bool sequence_parallel(int definition_index) const {
    return layers_[definition_index].sequence_parallel();
  }

  // Memory of a process apart from tensors, and the factors of the range of predicted memory.
  const MemoryOverheads& overheads() const { return overheads_; }
  // The same overheads as coefficients, for `MemoryOfRank`.
  const Coefficients& memory_coefficients() const { return memory_coefficients_; }

  // The source of the numbers of one definition.
  const LayerSource& layer_source(int definition_index) const { return layers_[definition_index]; }
  // The collectives of layers.
  const LayerTraffic& traffic() const { return traffic_; }
  // The runtime whose rules decide how memory is kept and what overlaps.
  const RuntimeTraits& runtime() const { return runtime_; }

  // Returns the time of the optimizer's step over the parameters of a layer, once a step.
  // `parameter_count` counts those that one rank would have without sharding; unless `level` is
  // `kNone`, `shard_count` ranks divide them. 0 if the optimizer was not measured and the device is
  // unknown.
  Seconds OptimizerTime(int64_t parameter_count, ShardingLevel level, int shard_count) const;
  // Returns the time to quantise the weights of a layer once a step: those of its shard, if ranks
  // gather quantised weights. 0 if the precision quantises none, they are frozen or the device is
  // unknown.
  Seconds QuantisationTime(const LayerFootprint& footprint, ShardingLevel level,
                           const Strategy& strategy) const;
  // Returns the time, once a step, in which the host launches the copies of the parts of a layer
  // that was gathered after the optimizer's step: one copy for each parameter tensor and rank
  // (`RuntimeTraits::copies_gathered_parts`). 0 if the runtime makes none, or `level` has no such
  // gather, or all is frozen, or the device is unknown.
  Seconds PartCopyTime(const LayerDefinition& definition, const LayerFootprint& footprint,
                       ShardingLevel level, const Strategy& strategy) const;
  // Returns the time by which the backward pass of each micro-batch is longer with sharded
  // gradients: they are cleared before it, and added to the rank's shard after it
  // (optimizer_step.h). `parameter_count` is as above. 0 if the optimizer was not measured.
  Seconds ShardedGradientTime(int64_t parameter_count, int shard_count) const;
  // Returns the memory of a layer with `footprint` under `strategy`; `LayerMemory::message` is left
  // 0. `samples` are those of a micro-batch on one rank.
  LayerMemory MemoryOf(const LayerFootprint& footprint, const Strategy& strategy,
                       double samples) const;

 private:
  friend class CostModel;

  // Returns the all-to-all after which the ranks of a stage hold their parts under `strategy`.
  LayerCollective LayoutExchange(int definition_index, const Strategy& strategy,
                                 int64_t micro_batch_size) const;

  // Resolves the numbers of `group`; missing and estimated ones are added to `notes`. The ranges of
  // `overheads` are left to `ResolveRanges`.
  GroupCosts(const PlanningProblem& problem, GroupIndex group, const ProblemNeeds& needs,
             ResolutionNotes& notes);

  void ResolveOverheads(const ProfileSnapshot& profile, bool allow_estimates,
                        ResolutionNotes& notes);
  void ResolveOptimizer(const ProfileSnapshot& profile);
  // Fills in the ranges of memory and step time of predictions with this confidence.
  void ResolveRanges(const PlanningProblem& problem, Confidence confidence);

  Precision precision_ = Precision::kBf16;
  Optimizer optimizer_ = Optimizer::kAdam;
  RuntimeTraits runtime_;
  int devices_per_node_ = 1;
  // Absent if the device is unknown.
  std::optional<DeviceDescription> device_;
  // Time over the number of parameters a device updates; absent if the optimizer was not measured.
  std::optional<SizeCurve> optimizer_time_;
  Coefficients coefficients_;
  Coefficients memory_coefficients_;
  MemoryOverheads overheads_;
  // Host time of a step outside the layers; 0 if unknown.
  Seconds step_overhead_;
  // The sum of the loss over all ranks, once a step; 0 for runtimes that do not make it.
  Seconds loss_sum_;
  // Factors of the range of step times.
  RangeFactors step_within_node_;
  RangeFactors step_across_nodes_;
  // [definition of the model]
  std::vector<LayerSource> layers_;
  LayerTraffic traffic_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_GROUP_COSTS_H_
