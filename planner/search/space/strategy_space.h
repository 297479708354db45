// The strategies of the declared space (docs/search.md): every way to spread a layer
// over the ranks of a stage that rules, dimensions and target leave.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// Of one problem. Keeps references to its arguments.
class StrategySpace {
 public:
  StrategySpace(const PlanningProblem& problem, const CostModel& costs);

  // Pipeline degrees, ascending: divisors of the devices within rules, target and the
  // number of layers; only 1 without the dimension. Without uneven stages those that
  // divide the number of transformer layers.
  std::vector<int> PipelineDegrees() const;
  // Micro-batch counts of a batch, ascending: its divisors, or that of the rules where it
  // is one. At most `kMaxForwardPassCount`; that the stages make it more is for the caller
  // to see.
  std::vector<int64_t> MicroBatchCounts(int64_t global_batch_size) const;
  // Schedules of a pipeline of so many stages that dimensions and rules leave, 1F1B first.
  // At most one for one stage, where GPipe is the same: that of the rules, if any, and
  // none where they say interleaved.
  std::vector<Schedule> Schedules(int pipeline_parallel_degree) const;

  // Of a layer of `definition_index` in a stage of `devices / pipeline_parallel_degree`
  // ranks, ascending and distinct; empty when none applies. Each passes
  // `CheckPlanStructure`.
  std::vector<Strategy> Strategies(int definition_index, int pipeline_parallel_degree,
                                   int64_t micro_batch_size) const;
  // The same without recomputation and sharding, in another order: those that differ in
  // rank order only follow one another.
  std::vector<Strategy> BareStrategies(int definition_index, int pipeline_parallel_degree,
                                       int64_t micro_batch_size) const;
  // The first definition that has the same bare strategies, whatever degree and micro-batch.
  int DefinitionLike(int definition_index) const { return alike_[definition_index]; }
  // What a bare strategy may be combined with, ascending, `kNone` first: each of
  // `Strategies` is a bare one with one of both.
  absl::InlinedVector<ShardingLevel, 4> ShardingLevels(int definition_index, const Strategy& bare,
                                                       int pipeline_parallel_degree) const;
  // Selective recomputation only where it keeps less than none.
  absl::InlinedVector<RecomputeLevel, 3> RecomputeLevels(const LayerFootprint& footprint) const;

  const PlanningProblem& problem() const { return problem_; }
  DimensionSet dimensions() const { return dimensions_; }
  // Of planner/model/tied_table.h.
  bool HoldsTiedTable(int definition_index) const { return holds_tied_table_[definition_index]; }
  const TargetLimits& target() const { return target_; }

  // Whether a plan may have both strategies, of layers of these definitions: by
  // `per-layer`, `end-strategies` and a table that both hold. Where ends follow the layers
  // beside them and these differ, that is a matter of neighbours: `MayBeNeighbours`.
  bool GoTogether(int definition_a, const Strategy& a, int definition_b, const Strategy& b) const;
  // Whether layers of these definitions and strategies may follow one another, in one
  // stage or from one to the next: without `end-strategies` a layer that is no transformer
  // layer has the degrees, the rank order, the kind of context parallelism and the sharding level
  // of those beside it.
  bool MayBeNeighbours(int definition_a, const Strategy& a, int definition_b,
                       const Strategy& b) const;

  // Whether every plan of the space with `strategy` on some layers of a definition is one
  // as well with `other`, which has the same degrees, in its place on any of them: whether
  // nothing that binds layers to each other tells them apart.
  bool MayReplace(int definition_index, const Strategy& strategy, const Strategy& other) const;

 private:
  bool IsTransformerLayer(int definition_index) const;
  bool SplitsSomeTransformer(int degree) const;
  // Whether tensor, context and data degree may be so, in any of the two kinds.
  bool DegreesApply(const LayerDefinition& layer, int tensor, int context, int data) const;
  bool KindApplies(const LayerDefinition& layer, int tensor, int context, ContextKind kind) const;

  const PlanningProblem& problem_;
  const CostModel& costs_;
  DimensionSet dimensions_;
  const TargetLimits& target_;
  // Whether context and expert parallelism have prices.
  bool has_data_sheets_;
  int transformer_definition_count_ = 0;
  // [definition]
  std::vector<int> alike_;
  std::vector<char> holds_tied_table_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_STRATEGY_SPACE_H_
