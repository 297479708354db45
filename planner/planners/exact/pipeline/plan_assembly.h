// Plans from what searches choose, and lists of the best of them.

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

// Every stage by its choice, in maximal runs.
Plan AssemblePlan(const PipelineSetting& setting, absl::Span<const ChosenStage> stages);

// What the schedule is simulated with.
void StageTimesOf(const PipelineSetting& setting, absl::Span<const ChosenStage> stages,
                  std::vector<StageTimes>& times);

// Whether plans count as the same answer: batch, pipeline degree, virtual stages,
// micro-batches and schedule are equal, and so is the set of strategies layers have,
// whichever layers they are.
bool AreAlike(const Plan& a, const Plan& b);

// The best plans, at most `wanted`, no two alike.
class PlanList {
 public:
  explicit PlanList(int wanted) : wanted_(wanted) {}

  // Keeps the better of plans that are alike. True when the list changed.
  bool Offer(PredictedPlan plan);

  // Best first by `IsBetterPlan`.
  const std::vector<PredictedPlan>& plans() const { return plans_; }
  std::vector<PredictedPlan> Take() { return std::move(plans_); }
  bool is_full() const { return static_cast<int>(plans_.size()) == wanted_; }
  // Seconds a sample that a plan must not take to enter a full list; infinite until then.
  double MostTimePerSample() const;

 private:
  int wanted_;
  std::vector<PredictedPlan> plans_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PLAN_ASSEMBLY_H_
