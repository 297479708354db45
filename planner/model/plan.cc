#include "planner/model/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/model/pass_order.h"

namespace parplan {

std::string PlanGist(const Plan& plan) {
  const int depth = plan.pipeline_parallel_degree();
  std::string gist;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (i > 0) gist += " | ";
    if (plan.stages[i].is_empty()) gist += "empty";
    // Runs of different layers under one strategy are printed as one entry.
    const std::vector<StageLayerRun>& runs = plan.stages[i].layer_runs;
    for (size_t r = 0; r < runs.size();) {
      int count = 0;
      size_t next = r;
      while (next < runs.size() && runs[next].strategy == runs[r].strategy) {
        count += runs[next].layer_count;
        ++next;
      }
      absl::StrAppend(&gist, r > 0 ? ", " : "", StrategyNotation(depth, runs[r].strategy), " x",
                      count);
      r = next;
    }
  }
  return gist;
}

const StageLayerRun& SentRun(const Plan& plan, int stage_index) {
  int index = stage_index;
  while (plan.stages[index].is_empty()) --index;
  return plan.stages[index].layer_runs.back();
}

const Strategy& ReceivingStrategy(const Plan& plan, int stage_index) {
  const StagePlan& stage = plan.stages[stage_index];
  return stage.is_empty() ? SentRun(plan, stage_index).strategy : stage.layer_runs.front().strategy;
}

int64_t InFlightMicroBatchCount(Schedule schedule, int pipeline_parallel_degree, int stage_index,
                                int64_t micro_batch_count) {
  const PipelineShape shape{.schedule = schedule,
                            .pipeline_parallel_degree = pipeline_parallel_degree,
                            .micro_batch_count = micro_batch_count};
  // Each device frees what a split backward pass keeps for the gradients of weights as late as the
  // first one does.
  const bool is_split = TraitsOf(schedule).backward_split == BackwardSplit::kInputsThenWeights;
  return std::min(WarmUpPassCount(shape, is_split ? 0 : stage_index) + 1, micro_batch_count);
}

}  // namespace parplan
