// The strategies of every layer of a model and their costs, for one batch size, one pipeline degree
// and one number of micro-batches. `SearchBaseline` makes them for each candidate;
// `StepLowerBound` and `SearchCandidate` read them.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; options have one layout if activations move between them at no cost;
// micro-batches in flight have done their forward pass and not yet their backward pass; a
// definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_BASELINES_STAGE_TABLES_H_
#define PARPLAN_PLANNER_PLANNERS_BASELINES_STAGE_TABLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_tree.h"
#include "planner/search/stage/layer_assignment.h"
#include "planner/search/stage/stage_balance.h"

namespace parplan {

// One strategy of one layer definition.
struct TableEntry {
  Strategy strategy;
  // Number of its layout (`LayerOption::layout`), from 0. Only `StageChoices` gives it a meaning.
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

// The tables of all definitions. The time of a transition depends only on the tensor-parallel
// degree, the data-parallel degree and the order of ranks, so strategies in which these three are
// equal share a layout. Immutable.
class StageTables {
 public:
  // Lists the strategies of `space` that the problem allows and computes their costs. Keeps no
  // reference to its arguments. REQUIRES: `pipeline_parallel_degree` divides the devices of
  // `problem` and `micro_batch_count` its `global_batch_size()`, which is not checked. Once
  // `meter`, if it is not null, ends the search the table is not usable.
  StageTables(const PlanningProblem& problem, const CostModel& costs, const SearchSpace& space,
              int pipeline_parallel_degree, int64_t micro_batch_count,
              SearchMeter* meter = nullptr);

  // Return the arguments of the constructor with these names.
  int pipeline_parallel_degree() const { return pipeline_parallel_degree_; }
  int64_t micro_batch_count() const { return micro_batch_count_; }
  // The schedule of the problem's rules, or `kDefaultSchedule`.
  Schedule schedule() const { return schedule_; }
  // Number of layers of the model, embedding and head among them.
  int layer_count() const { return static_cast<int>(definition_of_layer_.size()); }
  // Whether every layer of the model has a strategy. The methods below REQUIRE it, which only
  // `LeastMemoryOfStages` checks.
  bool usable() const { return usable_; }
  // [definition] ascending by strategy; empty for a definition that no layer of the model has.
  const std::vector<std::vector<TableEntry>>& entries() const { return entries_; }

  // Returns the number of micro-batches in flight on stage `stage_index`; stages count from 0.
  int64_t InFlight(int stage_index) const;
  // Returns the objective of a whole step: every micro-batch, and synchronisation.
  StageObjective WholeStep() const { return {static_cast<double>(micro_batch_count_), 1.0}; }
  // Returns the time of one layer under `entry`, without transitions, by the weights of
  // `objective`.
  static Seconds Time(const TableEntry& entry, const StageObjective& objective);
  // Returns the bytes that one layer under `entry` holds throughout the step on a stage with
  // `in_flight` micro-batches: its states, and the activations that all of these keep. Transient
  // memory is not among them.
  static Bytes Kept(const TableEntry& entry, int64_t in_flight);

  // Returns the choices of stage `stage_index`, counted from 0, if it has the `layer_count` layers
  // from `first_layer` on. Kinds are the definitions that occur, in order of first occurrence, and
  // the options of a kind are the `entries()` of its definition in their order, so that indices are
  // the same. Layouts are those of all definitions of the model.
  StageChoices ChoicesOfStage(int first_layer, int layer_count, int stage_index,
                              const StageObjective& objective) const;
  // Returns [kind] the definition of each kind of such a stage.
  std::vector<int> DefinitionsOfStage(int first_layer, int layer_count) const;

  // Returns the least memory of every stage and definition, for stage_balance.h, whose kinds of
  // layers are the definitions. Returns nothing if `meter` ended the search.
  std::optional<LeastMemory> LeastMemoryOfStages(SearchMeter& meter) const;
  // Returns [layer] the least `Time` of its strategies under `objective`.
  std::vector<Seconds> FastestLayerTimes(const StageObjective& objective) const;

 private:
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
