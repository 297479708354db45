// The strategies of every layer of a model and their costs, for one pipeline degree and one number
// of micro-batches. Used by `SearchBaseline`.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_STAGE_TABLES_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_STAGE_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/search/space/strategy_tree.h"
#include "planner/search/stage/layer_assignment.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// One strategy of one layer definition.
struct TableEntry {
  Strategy strategy;
  int layout = 0;
  LayerCost cost;
};

// The objective of a stage: `repeat_count` times the time of one micro-batch plus `sync_count`
// times gradient synchronisation and the optimizer's step.
struct StageObjective {
  double repeat_count = 1.0;
  double sync_count = 1.0;
  friend auto operator<=>(const StageObjective&, const StageObjective&) = default;
};

// The tables of all definitions. Transitions depend only on the degrees and the order of ranks, so
// strategies that share them share a layout. Immutable.
class StageTables {
 public:
  // REQUIRES: `pipeline_parallel_degree` divides the devices of `problem` and
  // `micro_batch_count` its batch.
  StageTables(const PlanningProblem& problem, const CostModel& costs, const SearchSpace& space,
              int pipeline_parallel_degree, int64_t micro_batch_count);

  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int64_t micro_batch_count() const { return micro_batch_count_; }
  Schedule schedule() const { return schedule_; }
  int layer_count() const { return static_cast<int>(definition_of_layer_.size()); }
  // Whether every layer of the model has a strategy. The methods below require it.
  bool usable() const { return usable_; }
  // [definition] ascending by strategy.
  const std::vector<std::vector<TableEntry>>& entries() const { return entries_; }

  // Returns the number of micro-batches in flight on a stage.
  int64_t InFlight(int stage_index) const;
  // Returns the objective of a whole step: every micro-batch, and synchronisation.
  StageObjective WholeStep() const { return {static_cast<double>(micro_batch_count_), 1.0}; }
  static Seconds Time(const TableEntry& entry, const StageObjective& objective);
  // Returns the bytes a stage with `in_flight` micro-batches holds throughout the step.
  static Bytes Kept(const TableEntry& entry, int64_t in_flight);

  // Returns the choices of a stage with the layers from `first_layer` on. Kinds are the definitions
  // that occur, in order of first occurrence.
  StageChoices ChoicesOfStage(int first_layer, int layer_count, int stage_index,
                              const StageObjective& objective) const;
  // Returns the definition of each kind of such a stage.
  std::vector<int> DefinitionsOfStage(int first_layer, int layer_count) const;

  // Returns the least memory of every stage and definition, for stage_balance.h. REQUIRES:
  // `usable()`.
  LeastMemory LeastMemoryOfStages() const;
  // Returns [layer] the time of the strategy that is best for `objective`.
  std::vector<Seconds> FastestLayerTimes(const StageObjective& objective) const;

 private:
  int LayoutOf(const Strategy& strategy);

  int pipeline_parallel_degree_;
  int64_t micro_batch_count_;
  Schedule schedule_;
  bool usable_ = true;
  std::vector<int> definition_of_layer_;
  // [layout] one of its strategies.
  std::vector<Strategy> layouts_;
  std::vector<std::vector<TableEntry>> entries_;
  // [definition][from * layout count + to], per micro-batch.
  std::vector<std::vector<Seconds>> transitions_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_BASELINES_STAGE_TABLES_H_
