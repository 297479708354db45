// Prediction of a plan: time of a step and memory of every device. Searches, `planctl` and the
// check of results (planner/check/result_check.h) call it.

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

// The numbers by which plans are compared.
struct PlanScore {
  // Time of one step.
  Seconds step;
  // Memory of the fullest device: the expected peak, and its upper bound at the accepted risk.
  Bytes peak_memory;
  Bytes peak_memory_upper;
};

// Predicts plans of one problem, one after the other. There is one objective: searches, reports,
// `planctl evaluate` and `parplan-study accuracy` all use this class.
//
// The step ends with the schedule simulated pass by pass (pipeline_schedule.h), gradient
// synchronisation and the optimizer's step included, and `CostModel::step_overhead` comes on top.
// Memory is the peak of a device over the backward passes of its layers and the optimizer's step
// (rank_memory.h). Its upper bound is the sum of all that is kept, the largest need of any layer
// and the memory apart from tensors, times the calibration's factor: never less than the peak, and
// something searches can compute layer by layer.
//
//   PlanEvaluator evaluator(problem, costs);
//   const PlanScore score = evaluator.Evaluate(plan);
//   if (score.peak_memory_upper <= problem.usable_memory()) ...
//
// Keeps its memory from call to call, and references to both arguments. One thread at a time may
// use it.
class PlanEvaluator {
 public:
  // `costs` are the costs of `problem`; both must outlive the evaluator.
  PlanEvaluator(const PlanningProblem& problem, const CostModel& costs);

  // Returns the score of `plan`. Allocates nothing once it has seen a plan with as many stages and
  // runs, except where `GroupCosts::CostOfLayer` does. REQUIRES, here and below: `plan` satisfies
  // `CheckPlanStructure` for the problem, which is not checked.
  PlanScore Evaluate(const Plan& plan);

  // Returns the same prediction with every detail.
  Prediction Predict(const Plan& plan);

  // Return details of the plan seen last, without which they must not be called: the times of each
  // virtual stage, with the optimizer's step included in `gradient_sync`, valid until the next
  // plan, and the upper bound of memory on each device of pipeline position `device`, from 0.
  absl::Span<const StageTimes> stage_times() const { return times_; }
  Bytes peak_memory_upper(int device) const { return devices_[device].upper; }

 private:
  // Sums over the layers of a virtual stage, shared by all stages with the same layers under the
  // same strategies. Stages without layers share them if they send the output of the same layer.
  struct StageSum {
    // One of these stages, its `SentRun`, and the node group of all of them.
    const StagePlan* stage = nullptr;
    const StageLayerRun* sent = nullptr;
    GroupIndex group;
    Seconds forward;
    Seconds backward;
    Seconds backward_weights;
    Seconds gradient_sync;
    Seconds optimizer_step;
    TimeItems time;
    StageMemory memory;
    int communicator_count = 0;
  };
  // Memory of one device.
  struct DeviceSum {
    RankMemory memory;
    // Ends of the range of `memory.total`.
    Bytes lower;
    Bytes upper;
  };
  // The message from one stage to the next.
  struct Hop {
    int from_sum = -1;
    int to_sum = -1;
    bool leaves_node = false;
    friend bool operator==(const Hop&, const Hop&) = default;
  };
  // A layer cost that was computed before, and what it is for.
  struct Known {
    GroupIndex group;
    int definition_index = -1;
    Strategy strategy;
    int64_t micro_batch_size = 0;
    int pipeline_parallel_degree = 0;
    LayerCost cost;
  };

  // Returns the cost of a layer; the reference is valid until the next call.
  const LayerCost& CostOf(GroupIndex group, int definition_index, const Strategy& strategy,
                          const Plan& plan);
  bool AreAlike(const StageLayerRun& one, const StageLayerRun& other) const;
  bool SameLayers(const StagePlan& a, const StagePlan& b) const;
  // Returns the index of the stage's sum in `sums_`. `sent` is its `SentRun`.
  int SumOf(const Plan& plan, const StagePlan& stage, const StageLayerRun& sent);
  void AddSum(const Plan& plan, const StagePlan& stage, const StageLayerRun& sent, StageSum& sum);
  // Returns the group of a stage. Stages do not cross groups.
  GroupIndex GroupOf(const StagePlan& stage) const {
    return problem_.topology().GroupOfRank(stage.first_rank);
  }
  Seconds SendTime(const Plan& plan, int index);
  void SumDevice(const Plan& plan, int device);
  Seconds Run(const Plan& plan);

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const bool has_tied_table_;
  ScheduleEvaluator schedule_;
  // The sums of this plan's distinct stages are the first `sum_count_` of `sums_`;
  // `sum_of_stage_[stage]` is an index into them.
  std::vector<StageSum> sums_;
  int sum_count_ = 0;
  std::vector<int> sum_of_stage_;
  std::vector<StageTimes> times_;
  Hop last_hop_;
  Seconds last_send_;
  std::vector<DeviceSum> devices_;
  std::vector<const StageMemory*> memory_of_device_;
  // Ring of the costs computed last, the newest just before `next_known_`.
  std::vector<Known> known_;
  size_t next_known_ = 0;
};

// Returns `kAcrossNodes` if some tensor-parallel group of the plan has ranks on several nodes, else
// `kWithinNode`.
TensorParallelReach ReachOf(const Plan& plan, const Topology& topology);

// Predicts a single plan, as `PlanEvaluator::Predict` does.
//
// REQUIRES, unchecked: `CheckPlanStructure` (planner/check/plan_check.h) returns OK for `plan` and
// `problem`.
Prediction PredictPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PREDICT_PLAN_H_
