#include "clients/calibrate/predict_run.h"

#include <algorithm>

#include "base/status_macros.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/planning_problem.h"

namespace parplan::accuracy {
namespace {

// The stage whose peak the source published.
const StagePrediction& JudgedStage(const Prediction& prediction, MemoryView view) {
  if (view == MemoryView::kAllocatedLastRank) return prediction.stages.back();
  if (view == MemoryView::kReservedFirstRank || view == MemoryView::kAllocatedFirstRank) {
    return prediction.stages.front();
  }
  const StagePrediction* fullest = &prediction.stages.front();
  for (const StagePrediction& stage : prediction.stages) {
    if (ItemsInView(stage.memory, view).Total() > ItemsInView(fullest->memory, view).Total()) {
      fullest = &stage;
    }
  }
  return *fullest;
}

// Returns the items of the stage that is busy longest.
TimeItems BusiestItems(const Prediction& prediction) {
  const StagePrediction* busiest = &prediction.stages.front();
  for (const StagePrediction& stage : prediction.stages) {
    if (stage.time.Total() > busiest->time.Total()) busiest = &stage;
  }
  return busiest->time;
}

}  // namespace

MemoryItems ItemsInView(const MemoryItems& items, MemoryView view) {
  MemoryItems counted = items;
  if (view == MemoryView::kDeviceTotal) return counted;
  // PyTorch allocates neither of them.
  counted[MemoryItemKind::kContext] = Bytes();
  counted[MemoryItemKind::kCommunicators] = Bytes();
  if (view != MemoryView::kReservedMax && view != MemoryView::kReservedFirstRank) {
    counted[MemoryItemKind::kFragmentation] = Bytes();
  }
  return counted;
}

absl::StatusOr<RunPrediction> PredictRun(const RunQuestion& question,
                                         const std::shared_ptr<const Calibration>& calibration) {
  PlanningRules rules;
  rules.memory_headroom_ratio = 0.0;
  rules.allow_estimates = true;
  rules.schedule = question.plan.schedule;
  rules.runtime = question.runtime;
  for (const StagePlan& stage : question.plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      rules.max_tensor_parallel_degree =
          std::max(rules.max_tensor_parallel_degree, run.strategy.tensor_parallel_degree);
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const PlanningProblem problem,
      PlanningProblem::Create(question.model, question.topology,
                              Knowledge{{{.hardware = question.hardware}}, calibration},
                              question.plan.global_batch_size, rules));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  const Prediction predicted = PredictPlan(problem, costs, question.plan);

  RunPrediction prediction;
  prediction.step = predicted.step;
  prediction.confidence = predicted.confidence;
  if (predicted.step_upper > Seconds()) {
    prediction.step_range = StepRange{predicted.step_lower, predicted.step_upper};
  }
  prediction.time_items = BusiestItems(predicted);
  prediction.memory_items =
      ItemsInView(JudgedStage(predicted, question.memory_view).memory, question.memory_view);
  prediction.memory = prediction.memory_items.Total();
  prediction.memory_bound = costs.group(kFirstGroup).overheads().Upper(prediction.memory);
  prediction.memory_upper = predicted.peak_memory_upper;
  return prediction;
}

}  // namespace parplan::accuracy
