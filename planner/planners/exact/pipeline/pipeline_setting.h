// The facts about one candidate that all parts of its search share. Each search of a candidate
// under planner/planners/exact makes one.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; a tied table is one table of weights that is both the embedding's and
// the head's. P is the pipeline degree. Layers and stages count from 0; no index is checked.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SETTING_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SETTING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// The facts about one candidate. Copies the candidate; the other three objects that the constructor
// takes are kept as references and must outlive it. Immutable, so safe to use from any thread.
class PipelineSetting {
 public:
  // The facts about a stage that do not depend on its layers.
  struct Stage {
    // Micro-batches that it holds activations of at once, at most.
    int64_t in_flight = 1;
    // Whether the runtime keeps what the stage sends.
    bool keeps_outputs = false;
    // Whether messages to the next stage leave the node. For the last stage: those to the first
    // one, which only plans with virtual stages send.
    bool leaves_node = false;
    // Communicators beyond those of options: 1 in the first and last of several stages if the model
    // has a tied table, whose gradients these two stages sum up; else 0.
    int extra_communicator_count = 0;
    // Least seconds of any message to the next stage; 0 for the last stage.
    double least_send = 0.0;
  };

  // `usable_memory` is that of one device. Only `budget` and `largest_budget` follow from it: a
  // search may try again with less than `problem().usable_memory()`. REQUIRES: the schedule has no
  // virtual stages; aborts otherwise. Searches of interleaved plans therefore make a setting with
  // 1F1B instead, and read only facts that do not depend on the schedule. REQUIRES: `table` is
  // made for the candidate's pipeline degree, and its `usable()` is true.
  PipelineSetting(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                  const PipelineCandidate& candidate, Bytes usable_memory);

  // Return the arguments of the constructor, and parts of them.
  const StrategySpace& space() const { return space_; }
  const PlanningProblem& problem() const { return space_.problem(); }
  const CostModel& costs() const { return costs_; }
  const OptionTable& table() const { return table_; }
  const PipelineCandidate& candidate() const { return candidate_; }
  // Returns the recurrence by which the last stages of the candidate give lower bounds of its step.
  const SuffixRecurrence& recurrence() const { return recurrence_; }
  // Returns the pipeline degree.
  int depth() const { return candidate_.pipeline_parallel_degree; }
  int layer_count() const { return problem().model().layer_count(); }
  int definition_of(int layer) const { return problem().model().definition_of_layer()[layer]; }
  const Stage& stage(int index) const { return stages_[index]; }
  // Returns the least seconds of any message between stages; 0 with one stage.
  double least_send(bool leaves_node) const {
    return leaves_node ? least_send_between_nodes_ : least_send_within_node_;
  }
  // Returns `BudgetsOf` for up to one communicator more than any option has, since the first and
  // the last stage may need that of a tied table.
  const BudgetByCommunicators& budget() const { return budget_; }
  // Returns the largest budget for tensors over all numbers of communicators; negative if nothing
  // fits.
  Bytes largest_budget() const { return largest_budget_; }

  // Returns `EvenBoundaries` if the space has no `uneven-stages`, which leaves no other partition;
  // if these are empty too, `has_partition` is false. Empty if the space has `uneven-stages`. Valid
  // as long as this object.
  absl::Span<const int> fixed_boundaries() const { return fixed_boundaries_; }
  // Returns [stage] the first layer of each stage, then the number of layers, such that all stages
  // have equally many transformer layers, whatever the space allows. Layers before the first
  // transformer layer belong to the first stage, those after the last one to the last stage. Empty
  // if P does not divide the number of transformer layers, or if there are none and P is above 1.
  // O(layers).
  std::vector<int> EvenBoundaries() const;
  // Returns whether there is any partition at all, whatever the memory.
  bool has_partition() const { return has_partition_; }
  // Return the smallest and the largest first layer that stage `stage` may have, regardless of
  // memory: each stage has a layer, and a transformer layer if the target asks for it. For `stage`
  // P both return the number of layers. REQUIRES, unchecked: has_partition().
  int least_first(int stage) const {
    return stage == 0 ? 0 : stage == depth() ? layer_count() : end_of_first_ + stage - 1;
  }
  int largest_first(int stage) const {
    return stage == 0         ? 0
           : stage == depth() ? layer_count()
                              : first_of_last_ - (depth() - 1 - stage);
  }

  // Returns layers [first_layer, end_layer) as runs of equal layers, as few as possible. If
  // neighbouring runs of the model (`ModelSpec::layer_runs`) have the same definition, they are
  // joined.
  std::vector<DefinitionRun> RunsOf(int first_layer, int end_layer) const;
  // Returns the first layer after the run of the model that `layer` is in. The layer there may have
  // the same definition, since runs are not joined here.
  int EndOfRun(int layer) const { return end_of_run_[layer]; }

 private:
  void DescribeStages();
  void LimitEndStages();
  double LeastSend(bool leaves_node) const;

  const StrategySpace& space_;
  const CostModel& costs_;
  const OptionTable& table_;
  const PipelineCandidate candidate_;
  const SuffixRecurrence recurrence_;
  std::vector<Stage> stages_;
  double least_send_within_node_ = 0.0;
  double least_send_between_nodes_ = 0.0;
  BudgetByCommunicators budget_;
  Bytes largest_budget_ = Bytes::Of(-1);
  std::vector<int> fixed_boundaries_;
  bool has_partition_ = true;
  // The least end of the first stage, and the largest first layer of the last, if there are
  // several.
  int end_of_first_ = 1;
  int first_of_last_ = 0;
  std::vector<int> end_of_run_;
};

// Returns [number of communicators on a device, from 0 to `max_communicators`] the bytes of tensors
// that fit on a device with so many communicators; negative if nothing fits.
BudgetByCommunicators BudgetsOf(const MemoryOverheads& overheads, Bytes usable_memory,
                                int pipeline_parallel_degree, int ranks_per_stage,
                                int max_communicators);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SETTING_H_
