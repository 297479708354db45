// The strategies of the declared space (docs/search.md): every way to spread a layer over the ranks
// of a stage that rules, space dimensions and target allow. `exact`, the Galvatron planners and
// uniform_search.h list strategies by it; so does recomputed_plan.h of the ILP planners. The
// planners of baseline_search.h use strategy_tree.h.
//
// Words (docs/glossary.md): a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// The declared space of one problem. Keeps references to its arguments, which must outlive it. Its
// methods change nothing and may be called on several threads. Context parallelism, experts spread
// over ranks, modules recomputed by name and hybrid sharding are in it only if the problem has data
// sheets of its hardware and the rules allow estimates. REQUIRES, unchecked: a
// `pipeline_parallel_degree` divides the number of devices.
class StrategySpace {
 public:
  StrategySpace(const PlanningProblem& problem, const CostModel& costs);

  // Returns the pipeline degrees, ascending: the divisors of the device count within rules, target
  // and number of layers; only 1 without the `pipeline` dimension. Without `uneven-stages` only
  // degrees that divide the number of transformer layers.
  std::vector<int> PipelineDegrees() const;
  // Returns the micro-batch counts of a batch, ascending: the divisors of the batch or, if the
  // rules give a count, that count if it is a divisor. Leaves out counts above
  // `kMaxForwardPassCount`, so the result may be empty; the caller must check the product with the
  // number of stages.
  std::vector<int64_t> MicroBatchCounts(int64_t global_batch_size) const;
  // Returns the schedules that dimensions and rules allow for `pipeline_parallel_degree` stages,
  // 1F1B first. Schedules with split backward passes are left out, because zero_bubble_search.h
  // searches them. For one stage, where 1F1B and GPipe are the same, returns at most one: the
  // schedule of the rules, or 1F1B if they give none. Returns none there if the schedule of the
  // rules has virtual stages or split backward passes.
  std::vector<Schedule> Schedules(int pipeline_parallel_degree) const;

  // Returns the strategies of a layer of `definition_index` in a stage of `devices /
  // pipeline_parallel_degree` ranks, ascending and distinct; empty if none applies. Each passes
  // `CheckPlanStructure`.
  std::vector<Strategy> Strategies(int definition_index, int pipeline_parallel_degree,
                                   int64_t micro_batch_size) const;
  // Returns the strategies without recomputation and sharding ("bare"), in another order:
  // strategies that differ only in rank order are adjacent. Each has some sharding level.
  std::vector<Strategy> BareStrategies(int definition_index, int pipeline_parallel_degree,
                                       int64_t micro_batch_size) const;
  // Returns the first definition that has the same bare strategies at any degree and micro-batch
  // size.
  int DefinitionLike(int definition_index) const { return alike_[definition_index]; }
  // Returns the sharding levels a bare strategy may be combined with, ascending. They are the same
  // for either rank order and context kind, and none if the target asks for levels that the
  // dimensions do not have. Each of `Strategies` is a bare strategy with one sharding level, one
  // sharding degree and one recomputation.
  absl::InlinedVector<ShardingLevel, 4> ShardingLevels(int definition_index, const Strategy& bare,
                                                       int pipeline_parallel_degree) const;
  // Returns the numbers of ranks that may share the states of a layer under a bare strategy with a
  // level (`Strategy::sharding_degree`), ascending: 0, and with `hybrid-sharding` the divisors of
  // the ranks with the same parameters that the target allows.
  absl::InlinedVector<int, 4> ShardingDegrees(const Strategy& bare, ShardingLevel level) const;
  // Returns the recomputations that the dimensions allow for a layer. The first is
  // RecomputeLevel::kNone, which is the only one of an embedding or head. Selective recomputation
  // is there only if the layer then keeps less memory than without recomputation. Sets of modules
  // come last: every set of the model, also those whose modules the layer does not have.
  absl::InlinedVector<Recomputation, 4> Recomputations(const LayerFootprint& footprint) const;

  // Return the problem of the constructor, and its dimensions.
  const PlanningProblem& problem() const { return problem_; }
  DimensionSet dimensions() const { return dimensions_; }
  // Returns whether layers of the definition hold the tied table (planner/model/tied_table.h).
  bool HoldsTiedTable(int definition_index) const { return holds_tied_table_[definition_index]; }
  // Returns the limits of the program that will run the plan.
  const TargetLimits& target() const { return target_; }

  // Returns whether one plan may contain both strategies on layers of these definitions, by the
  // rules of `per-layer`, `end-strategies`, a tied table and the target. If end layers follow
  // neighbours that may differ among themselves, the transitions of `OptionTable` decide instead.
  bool GoTogether(int definition_a, const Strategy& a, int definition_b, const Strategy& b) const;

  // Returns the level of sharding that the strategy asks of all layers that shard no parameters,
  // and the sequence parallelism that it asks of all layers that tensor parallelism splits; nothing
  // if the target does not have them once for all layers, or the strategy leaves them open.
  std::optional<ShardingLevel> CommonLevel(const Strategy& strategy) const;
  std::optional<bool> CommonSequenceParallel(const Strategy& strategy) const;

  // Returns whether replacing `strategy` by `other` on any layers of the definition keeps every
  // plan in the space. This holds if no rule that constrains pairs of layers distinguishes the two.
  // REQUIRES, unchecked: both are strategies of the definition in one stage.
  bool MayReplace(int definition_index, const Strategy& strategy, const Strategy& other) const;
  // Returns whether `MayReplace` is true for any strategies of the definition.
  bool MayReplaceAny(int definition_index) const;

 private:
  bool IsTransformerLayer(int definition_index) const;
  bool HasExperts(int definition_index) const;
  bool SplitsSomeTransformer(int degree) const;
  // Returns 0, and the tensor-parallel degrees that experts of the layer may have beside a
  // strategy, ascending.
  std::vector<int> ExpertTensorDegrees(const LayerDefinition& layer,
                                       const Strategy& strategy) const;
  // Returns whether the three degrees may be combined, with context parallelism of either kind.
  bool DegreesApply(const LayerDefinition& layer, int tensor, int context, int data) const;
  bool KindApplies(const LayerDefinition& layer, int tensor, int context, ContextKind kind) const;

  const PlanningProblem& problem_;
  const CostModel& costs_;
  DimensionSet dimensions_;
  const TargetLimits& target_;
  // Whether context and expert parallelism and hybrid sharding can be priced.
  bool has_data_sheets_;
  bool model_has_experts_;
  int transformer_definition_count_ = 0;
  // Empty without `recompute-modules`. They are priced from data sheets.
  std::vector<RecomputeModules> module_sets_;
  // [definition]
  std::vector<int> alike_;
  std::vector<char> holds_tied_table_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_
