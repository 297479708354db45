// Plans assembled from chosen stages, and lists of the best plans. Used by all searches of `exact`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/suffix_search.h"

namespace parplan {

// Returns the plan with these stages, which are all of it in order, layers grouped in maximal runs
// of one definition and strategy. It has the schedule of the setting and one stage a device.
// REQUIRES, here and in `StageTimesOf`, unchecked: there are as many stages as the pipeline degree,
// and their choices have options of the setting's table.
Plan AssemblePlan(const PipelineSetting& setting, absl::Span<const ChosenStage> stages);

// Sets `times` to the stage times with which the schedule is simulated, [stage]; `send` is infinite
// if the space has no such neighbours, and 0 for the last stage. Those of passes and
// synchronisation are the choices' own.
void StageTimesOf(const PipelineSetting& setting, absl::Span<const ChosenStage> stages,
                  std::vector<StageTimes>& times);

// Returns whether two plans count as the same answer: batch size, pipeline degree, virtual stages,
// micro-batches and schedule are equal, and so is the set of strategies, regardless of the layers
// that have them.
bool AreAlike(const Plan& a, const Plan& b);

// The best plans, at most `wanted`, no two alike.
class PlanList {
 public:
  // REQUIRES, unchecked: `wanted` is at least 1.
  explicit PlanList(int wanted) : wanted_(wanted) {}

  // Adds a plan; keeps the better of plans that are alike. Returns whether the list changed.
  bool Offer(PredictedPlan plan);

  // Returns the plans, best first by `IsBetterPlan`. Valid until the list changes.
  const std::vector<PredictedPlan>& plans() const { return plans_; }
  // Returns them and leaves the list empty.
  std::vector<PredictedPlan> Take() {
    answers_.clear();
    return std::move(plans_);
  }
  // Returns whether the list has as many plans as were wanted.
  bool is_full() const { return static_cast<int>(plans_.size()) == wanted_; }
  // Returns the cutoff, the time per sample of the last plan: a plan that takes more cannot enter
  // the list. Infinite while the list is not full.
  Seconds CutoffPerSample() const;

 private:
  // The parts that `AreAlike` compares: batch size, stages, virtual stages, micro-batches, schedule
  // and the strategies, ascending. Kept beside each plan, because a plan of many unlike layers has
  // thousands of strategies to sort.
  using Answer = std::tuple<int64_t, size_t, int, int64_t, Schedule, std::vector<Strategy>>;
  static Answer AnswerOf(const Plan& plan);
  friend bool AreAlike(const Plan& a, const Plan& b);

  int wanted_;
  std::vector<PredictedPlan> plans_;
  std::vector<Answer> answers_;  // [plan]
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_
