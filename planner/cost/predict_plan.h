// What a given plan takes: time of a step and memory of every device.

#ifndef PARPLAN_PLANNER_COST_PREDICT_PLAN_H_
#define PARPLAN_PLANNER_COST_PREDICT_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/cost/rank_memory.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// What plans are compared by.
struct PlanScore {
  Seconds step;
  // Of the fullest device: what is expected, and what it is trusted not to exceed.
  Bytes peak_memory;
  Bytes peak_memory_upper;
};

// Predicts plans of one problem, one after the other. There is one objective: search,
// report, `planctl evaluate` and `parplan-study accuracy` all come here.
//
// The step ends when the schedule simulated pass by pass does (pipeline_schedule.h),
// gradient synchronisation and the optimizer's step included. Memory is the peak over
// the backward passes of a device's layers (rank_memory.h). Its upper bound adds the
// largest need of any layer to all that is kept, which is never less, and is what
// searches can compute layer by layer; then the calibration's factor.
//
// Keeps its memory from call to call. Not to be used by two threads at once; keeps
// references to both arguments.
class PlanEvaluator {
 public:
  PlanEvaluator(const PlanningProblem& problem, const CostModel& costs);

  // REQUIRES: `plan` satisfies `CheckPlanStructure` for the problem. Allocates nothing
  // once a plan of as many stages and runs has been seen.
  PlanScore Evaluate(const Plan& plan);

  // The same with every detail.
  Prediction Predict(const Plan& plan);

  // Of the plan seen last: times by virtual stage, the optimizer's step within
  // `gradient_sync`, and what a device of stage `device` is trusted not to exceed.
  absl::Span<const StageTimes> stage_times() const { return times_; }
  Bytes peak_memory_upper(int device) const { return devices_[device].upper; }

 private:
  // Virtual stages with the same layers under the same strategies.
  struct StageSum {
    // One of them.
    const StagePlan* stage = nullptr;
    Seconds forward;
    Seconds backward;
    Seconds gradient_sync;
    Seconds optimizer_step;
    TimeItems time;
    StageMemory memory;
    int communicator_count = 0;
  };
  // One device.
  struct DeviceSum {
    RankMemory memory;
    Bytes upper;
  };
  // From a stage to the next.
  struct Hop {
    int from_sum = -1;
    int to_sum = -1;
    bool leaves_node = false;
    friend bool operator==(const Hop&, const Hop&) = default;
  };
  struct Known {
    int definition_index = -1;
    Strategy strategy;
    int64_t micro_batch_size = 0;
    int pipeline_parallel_degree = 0;
    LayerCost cost;
  };

  // Valid until the next call.
  const LayerCost& CostOf(int definition_index, const Strategy& strategy, const Plan& plan);
  bool SameLayers(const StagePlan& a, const StagePlan& b) const;
  // Index into `sums_`.
  int SumOf(const Plan& plan, const StagePlan& stage);
  void AddSum(const Plan& plan, const StagePlan& stage, StageSum& sum);
  Seconds SendTime(const Plan& plan, int index);
  void SumDevice(const Plan& plan, int device);
  Seconds Run(const Plan& plan);

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const bool has_tied_table_;
  ScheduleEvaluator schedule_;
  // Of this plan: the different stages, the first `sum_count_` of them, and which of
  // them each stage is.
  std::vector<StageSum> sums_;
  int sum_count_ = 0;
  std::vector<int> sum_of_stage_;
  std::vector<StageTimes> times_;
  Hop last_hop_;
  Seconds last_send_;
  std::vector<DeviceSum> devices_;
  std::vector<const StageMemory*> memory_of_device_;
  // Costs computed last, the newest in front of `next_known_`.
  std::vector<Known> known_;
  size_t next_known_ = 0;
};

// Whether some tensor-parallel group of the plan has ranks on several nodes.
TensorParallelReach ReachOf(const Plan& plan, int devices_per_node);

// One plan.
//
// REQUIRES: `plan` satisfies `CheckPlanStructure` for `problem`.
Prediction PredictPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PREDICT_PLAN_H_
