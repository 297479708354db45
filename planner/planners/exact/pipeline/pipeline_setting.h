// What all parts of the search of one candidate look at.

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

// Of one candidate. Keeps references to its arguments.
class PipelineSetting {
 public:
  // What is known of a stage before its layers are.
  struct Stage {
    int64_t in_flight = 1;
    bool keeps_outputs = false;
    // Messages to the next stage.
    bool leaves_node = false;
    int extra_communicator_count = 0;
    // The least any message to the next stage takes; 0 of the last.
    double least_send = 0.0;
  };

  // `usable_memory` of a device.
  PipelineSetting(const StrategySpace& space, const CostModel& costs, const OptionTable& table,
                  const PipelineCandidate& candidate, Bytes usable_memory);

  const StrategySpace& space() const { return space_; }
  const PlanningProblem& problem() const { return space_.problem(); }
  const CostModel& costs() const { return costs_; }
  const OptionTable& table() const { return table_; }
  const PipelineCandidate& candidate() const { return candidate_; }
  const SuffixRecurrence& recurrence() const { return recurrence_; }
  int depth() const { return candidate_.pipeline_parallel_degree; }
  int layer_count() const { return problem().model().layer_count(); }
  int definition_of(int layer) const { return problem().model().definition_of_layer()[layer]; }
  const Stage& stage(int index) const { return stages_[index]; }
  // The least any message between stages takes; 0 with one stage.
  double least_send(bool leaves_node) const { return least_send_[leaves_node ? 1 : 0]; }
  const BudgetByCommunicators& budget() const { return budget_; }
  // The most tensors any number of communicators leaves room for.
  Bytes largest_budget() const { return largest_budget_; }

  // First layers of all stages and behind the last one the number of layers, where the
  // space leaves no choice (without uneven stages); else empty.
  absl::Span<const int> fixed_boundaries() const { return fixed_boundaries_; }
  // Whether there is any partition at all.
  bool has_partition() const { return has_partition_; }

  // Layers [first, end) as runs.
  std::vector<DefinitionRun> RunsOf(int first_layer, int end_layer) const;
  // The first layer behind `layer` that is not of its definition, or of another run of the
  // model.
  int EndOfRun(int layer) const { return end_of_run_[layer]; }

 private:
  void DescribeStages();
  void FixBoundaries();
  double LeastSend(bool leaves_node) const;

  const StrategySpace& space_;
  const CostModel& costs_;
  const OptionTable& table_;
  const PipelineCandidate candidate_;
  const SuffixRecurrence recurrence_;
  std::vector<Stage> stages_;
  // [leaves_node]
  double least_send_[2] = {};
  BudgetByCommunicators budget_;
  Bytes largest_budget_ = Bytes::Of(-1);
  std::vector<int> fixed_boundaries_;
  bool has_partition_ = true;
  std::vector<int> end_of_run_;
};

// [communicator count] the tensors a device with so many communicators has room for.
BudgetByCommunicators BudgetsOf(const MemoryOverheads& overheads, Bytes usable_memory,
                                int pipeline_parallel_degree, int ranks_per_stage,
                                int most_communicators);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_SETTING_H_
