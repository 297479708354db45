// Plans assembled from chosen stages, and lists of the best plans. Used by all searches of `exact`.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/suffix_search.h"

namespace parplan {

// Returns the plan with these stages, layers grouped in maximal runs.
Plan AssemblePlan(const PipelineSetting& setting, absl::Span<const ChosenStage> stages);

// Sets the stage times with which the schedule is simulated.
void StageTimesOf(const PipelineSetting& setting, absl::Span<const ChosenStage> stages,
                  std::vector<StageTimes>& times);

// Returns whether two plans count as the same answer: batch size, pipeline degree, virtual stages,
// micro-batches and schedule are equal, and so is the set of strategies, regardless of the layers
// that have them.
bool AreAlike(const Plan& a, const Plan& b);

// The best plans, at most `wanted`, no two alike.
class PlanList {
 public:
  // REQUIRES: `wanted` is at least 1.
  explicit PlanList(int wanted) : wanted_(wanted) {}

  // Adds a plan; keeps the better of plans that are alike. Returns whether the list changed.
  bool Offer(PredictedPlan plan);

  // Returns the plans, best first by `IsBetterPlan`.
  const std::vector<PredictedPlan>& plans() const { return plans_; }
  std::vector<PredictedPlan> Take() { return std::move(plans_); }
  bool is_full() const { return static_cast<int>(plans_.size()) == wanted_; }
  // Returns the cutoff: a plan must take less time per sample to enter the list; infinite while the
  // list is not full.
  Seconds CutoffPerSample() const;

 private:
  int wanted_;
  std::vector<PredictedPlan> plans_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_
