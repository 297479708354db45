// The facts about one candidate that all parts of its search share. Each search of a candidate
// under planner/planners/exact makes one.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule.

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

// The facts about one candidate. Keeps references to its arguments but the candidate, which must
// outlive it. Immutable, so safe to use from any thread.
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
    // Communicators beyond those of options: that of a tied table.
    int extra_communicator_count = 0;
    // Least seconds of any message to the next stage; 0 for the last stage.
    double least_send = 0.0;
  };

  // `usable_memory` is that of one device, which may differ from that of the problem: `budget`
  // follows from it, and `problem` still has its own. REQUIRES: the schedule has no virtual stages,
  // else this aborts; searches of interleaved plans make one of 1F1B, and read only what no
  // schedule changes. `table` is usable and made for the candidate's degree, which is not checked.
  PipelineSetting(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                  const PipelineCandidate& candidate, Bytes usable_memory);

  // Return the arguments of the constructor, and parts of them.
  const StrategySpace& space() const { return space_; }
  const PlanningProblem& problem() const { return space_.problem(); }
  const CostModel& costs() const { return costs_; }
  const OptionTable& table() const { return table_; }
  const PipelineCandidate& candidate() const { return candidate_; }
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
  // Returns [communicators, from 0 to one more than any option has] the bytes of tensors that fit
  // on a device, as `BudgetsOf` does.
  const BudgetByCommunicators& budget() const { return budget_; }
  // Returns the largest budget for tensors over all numbers of communicators; negative if nothing
  // fits.
  Bytes largest_budget() const { return largest_budget_; }

  // Returns the first layers of all stages, followed by the number of layers, if the space fixes
  // them (without `uneven-stages`); otherwise empty, and also if there are no even ones
  // (`has_partition` is false then).
  absl::Span<const int> fixed_boundaries() const { return fixed_boundaries_; }
  // Returns the boundaries with equal numbers of transformer layers, whatever the space allows:
  // layers before the first belong to the first stage, those after the last to the last. Empty if
  // the number is no multiple of the stages, or 0 with several stages. O(layers).
  std::vector<int> EvenBoundaries() const;
  // Returns whether there is any partition at all, whatever the memory.
  bool has_partition() const { return has_partition_; }
  // Returns the smallest and the largest first layer that stage `stage` may have, regardless of
  // memory: each stage has a layer, and a transformer layer if the target asks for it. Index P is
  // the end of the model. REQUIRES, unchecked: has_partition().
  int least_first(int stage) const {
    return stage == 0 ? 0 : stage == depth() ? layer_count() : end_of_first_ + stage - 1;
  }
  int largest_first(int stage) const {
    return stage == 0         ? 0
           : stage == depth() ? layer_count()
                              : first_of_last_ - (depth() - 1 - stage);
  }

  // Returns layers [first, end) as runs, as few as there can be: neighbouring runs of the model
  // that are of one definition are one.
  std::vector<DefinitionRun> RunsOf(int first_layer, int end_layer) const;
  // Returns the first layer after `layer` of another definition or another run of the model.
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

// Returns [communicator count, from 0 to `max_communicators`] the bytes of tensors that fit on a
// device with so many communicators; negative if none do.
BudgetByCommunicators BudgetsOf(const MemoryOverheads& overheads, Bytes usable_memory,
                                int pipeline_parallel_degree, int ranks_per_stage,
                                int max_communicators);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SETTING_H_
