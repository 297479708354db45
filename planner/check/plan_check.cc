#include "planner/check/plan_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/check/memory_replay.h"
#include "planner/check/schedule_simulation.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/rank_memory.h"

namespace parplan {
namespace {

// Relative difference of a prediction from its recomputation that passes as rounding. Sums in
// another order differ by far less, and a wrong term makes a far larger difference. Not measured.
constexpr double kPredictionTolerance = 1e-6;

absl::Status WrongPrediction(const std::string& fact) {
  return MakeError(
      absl::StatusCode::kInternal, Reason::kCheckFailed,
      absl::StrCat("the plan's prediction is wrong: ", fact, "; report this with the problem"));
}

// Returns whether two numbers agree, relative to the larger one.
bool Close(double a, double b) {
  return a == b || std::abs(a - b) <= kPredictionTolerance * std::max(std::abs(a), std::abs(b));
}

absl::Status Expect(const std::string& what, double promised, double recomputed) {
  if (Close(promised, recomputed)) return absl::OkStatus();
  return WrongPrediction(
      absl::StrFormat("%s is predicted as %.9g, recomputed as %.9g", what, promised, recomputed));
}

absl::Status Expect(const std::string& what, Seconds promised, Seconds recomputed) {
  return Expect(absl::StrCat(what, " in seconds"), promised.value(), recomputed.value());
}

absl::Status Expect(const std::string& what, Bytes promised, Bytes recomputed) {
  return Expect(absl::StrCat(what, " in bytes"), promised.as_double(), recomputed.as_double());
}

// One device, recomputed layer by layer.
struct RecomputedDevice {
  StagePrediction sum;
  GroupIndex group;
  Bytes lower;
  Bytes upper;
};

// Returns whether any rank sends to another node.
bool LeavesNode(const PlanningProblem& problem, const StagePlan& stage, const StagePlan& next) {
  const Topology& topology = problem.topology();
  for (int rank = 0; rank < stage.rank_count; ++rank) {
    if (topology.NodeOfRank(stage.first_rank + rank) !=
        topology.NodeOfRank(next.first_rank + rank)) {
      return true;
    }
  }
  return false;
}

// Returns the last run of layers before stage `index`, whose output a stage without layers hands
// on.
const StageLayerRun& RunBefore(const Plan& plan, int index) {
  for (--index; plan.stages[index].layer_runs.empty();) --index;
  return plan.stages[index].layer_runs.back();
}

RecomputedDevice RecomputeDevice(const PlanningProblem& problem, const CostModel& costs,
                                 const Plan& plan, int device,
                                 std::vector<SimulatedStage>& simulated) {
  const int depth = plan.pipeline_parallel_degree();
  const int64_t micro_batch = plan.global_batch_size / plan.micro_batch_count;
  const bool tied = problem.model().layer(problem.model().layer_count() - 1).tied_embedding;
  const bool is_edge = device == 0 || device == depth - 1;
  RecomputedDevice recomputed;
  StagePrediction& sum = recomputed.sum;
  recomputed.group = problem.topology().GroupOfRank(plan.stages[device].first_rank);
  const GroupCosts& group = costs.group(recomputed.group);
  RankPlace place;
  place.schedule = plan.schedule;
  place.pipeline_parallel_degree = depth;
  place.stage_index = device;
  place.virtual_stage_count = plan.virtual_stage_count;
  place.micro_batch_count = plan.micro_batch_count;
  place.micro_batch_group_size = plan.micro_batch_group_size;
  std::vector<LayerMemoryRun> layers;
  for (int chunk = 0; chunk < plan.virtual_stage_count; ++chunk) {
    const int index = device + chunk * depth;
    const StagePlan& stage = plan.stages[index];
    SimulatedStage& part = simulated[index];
    const Strategy* before = nullptr;
    int definition = 0;
    for (const StageLayerRun& run : stage.layer_runs) {
      place.communicator_count = std::max(place.communicator_count,
                                          CommunicatorCount(run.strategy, depth, tied && is_edge));
      for (int layer = run.first_layer_index; layer < run.first_layer_index + run.layer_count;
           ++layer) {
        definition = problem.model().definition_of_layer()[layer];
        const LayerCost cost = group.CostOfLayer(definition, run.strategy, micro_batch, depth);
        const Seconds moving = before == nullptr ? Seconds()
                                                 : group.TransitionTime(definition, *before,
                                                                        run.strategy, micro_batch);
        part.forward += cost.forward + 0.5 * moving;
        part.backward += cost.backward + 0.5 * moving;
        part.backward_weights += cost.backward_weights;
        part.gradient_sync += cost.gradient_sync + cost.optimizer_step;
        sum.gradient_sync += cost.gradient_sync;
        sum.optimizer_step += cost.optimizer_step;
        for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
          sum.time.duration[kind] += cost.time.duration[kind];
        }
        sum.time[TimeItemKind::kResharding] += moving;
        layers.push_back({cost.memory, 1, chunk});
        before = &run.strategy;
      }
    }
    if (before == nullptr) {
      const StageLayerRun& handed_on = RunBefore(plan, index);
      before = &handed_on.strategy;
      definition = problem.model().definition_of_layer()[handed_on.first_layer_index];
      place.communicator_count =
          std::max(place.communicator_count, CommunicatorCount(*before, depth, tied && is_edge));
      const Bytes message = group.MessageSize(definition, *before, micro_batch);
      layers.push_back({{.kept = message, .message = message}, 1, chunk});
    }
    const bool is_last = index + 1 == static_cast<int>(plan.stages.size());
    if (!is_last && depth > 1) {
      const StagePlan& next = plan.stages[index + 1];
      part.send = costs.SendTime(
          recomputed.group, problem.topology().GroupOfRank(next.first_rank), definition, *before,
          next.layer_runs.empty() ? *before : next.layer_runs.front().strategy, stage.rank_count,
          LeavesNode(problem, stage, next), micro_batch);
    }
    sum.forward += part.forward;
    sum.backward += part.backward;
    if (plan.schedule == Schedule::kZeroBubble) sum.backward_weights += part.backward_weights;
    sum.send += part.send;
  }
  const ReplayedMemory memory =
      ReplayMemory(layers, place, costs.runtime(), group.memory_coefficients());
  sum.memory = memory.total;
  sum.in_flight_micro_batch_count = memory.in_flight_micro_batch_count;
  recomputed.lower = Bytes::Of(
      static_cast<int64_t>(sum.memory.Total().as_double() * group.overheads().lower_factor));
  recomputed.upper = group.overheads().Upper(group.overheads().DeviceMemory(
      memory.tensor_bound, depth, plan.stages[device].rank_count, place.communicator_count));
  recomputed.upper = std::max(recomputed.upper, sum.memory.Total());
  return recomputed;
}

absl::Status CompareStage(const std::string& stage, const StagePrediction& promised,
                          const StagePrediction& recomputed) {
  PARPLAN_RETURN_IF_ERROR(
      Expect(absl::StrCat(stage, " forward"), promised.forward, recomputed.forward));
  PARPLAN_RETURN_IF_ERROR(
      Expect(absl::StrCat(stage, " backward"), promised.backward, recomputed.backward));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " backward_weights"),
                                 promised.backward_weights, recomputed.backward_weights));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " gradient_sync"), promised.gradient_sync,
                                 recomputed.gradient_sync));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " optimizer_step"), promised.optimizer_step,
                                 recomputed.optimizer_step));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " send"), promised.send, recomputed.send));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " in_flight_micro_batch_count"),
                                 static_cast<double>(promised.in_flight_micro_batch_count),
                                 static_cast<double>(recomputed.in_flight_micro_batch_count)));
  PARPLAN_RETURN_IF_ERROR(
      Expect(absl::StrCat(stage, " idle_ratio"), promised.idle_ratio, recomputed.idle_ratio));
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " memory item ", kind),
                                   promised.memory.size[kind], recomputed.memory.size[kind]));
  }
  for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
    PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " time item ", kind),
                                   promised.time.duration[kind], recomputed.time.duration[kind]));
  }
  return Expect(absl::StrCat(stage, " sum of the time items"), promised.time.Total(),
                recomputed.forward + recomputed.backward);
}

// Checks the range of the step time.
absl::Status CheckStepRange(const PlanningProblem& problem, const CostModel& costs,
                            const Plan& plan, const Prediction& prediction, Seconds step) {
  // Whether two ranks of a tensor-parallel group are on different nodes, found rank by rank.
  bool across_nodes = false;
  const Topology& topology = problem.topology();
  for (const StagePlan& stage : plan.stages) {
    // Runs of one stride and degree have the same groups: thousands of unlike layers have a few.
    std::set<std::pair<int, int>> seen;
    for (const StageLayerRun& run : stage.layer_runs) {
      const int stride = run.strategy.tensor_stride();
      if (!seen.emplace(stride, run.strategy.tensor_parallel_degree).second) continue;
      for (int rank = 0; rank < stage.rank_count && !across_nodes; ++rank) {
        const int place = rank / stride % run.strategy.tensor_parallel_degree;
        const int first = stage.first_rank + rank - place * stride;
        across_nodes = topology.NodeOfRank(first) != topology.NodeOfRank(stage.first_rank + rank);
      }
    }
  }
  const RangeFactors& range = costs.step_range(across_nodes ? TensorParallelReach::kAcrossNodes
                                                            : TensorParallelReach::kWithinNode);
  PARPLAN_RETURN_IF_ERROR(Expect("step_lower", prediction.step_lower, step * range.lower));
  PARPLAN_RETURN_IF_ERROR(Expect("step_upper", prediction.step_upper, step * range.upper));
  if (prediction.range_basis != range.basis)
    return WrongPrediction("the range is that of another class");
  return absl::OkStatus();
}

// Returns the share of the step in which a stage is idle. It is compared absolutely, because it may
// be the difference of nearly equal numbers.
double IdleRatio(const StagePrediction& stage, int64_t micro_batch_count, Seconds step_overhead,
                 Seconds step, double promised) {
  const Seconds busy = (stage.forward + stage.backward) * static_cast<double>(micro_batch_count) +
                       stage.gradient_sync + stage.optimizer_step + step_overhead;
  const double idle = std::max(0.0, 1.0 - busy / step);
  return std::abs(idle - promised) <= kPredictionTolerance ? promised : idle;
}

}  // namespace

absl::Status CheckPlan(const PlanningProblem& problem, const Plan& plan,
                       const Prediction& prediction) {
  PARPLAN_RETURN_IF_ERROR(CheckPlanStructure(problem, plan));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  return CheckPlan(problem, costs, plan, prediction);
}

absl::Status CheckPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan,
                       const Prediction& prediction) {
  PARPLAN_RETURN_IF_ERROR(CheckPlanStructure(problem, plan));
  const int stage_count = plan.pipeline_parallel_degree();
  if (static_cast<int>(prediction.stages.size()) != stage_count) {
    return WrongPrediction(
        absl::StrCat(prediction.stages.size(), " stages are predicted of ", stage_count));
  }
  std::vector<StagePrediction> stages;
  std::vector<SimulatedStage> simulated(plan.stages.size());
  Bytes peak;
  Bytes lower;
  Bytes upper;
  absl::Status fits;
  for (int device = 0; device < stage_count; ++device) {
    const RecomputedDevice recomputed = RecomputeDevice(problem, costs, plan, device, simulated);
    stages.push_back(recomputed.sum);
    peak = std::max(peak, recomputed.sum.memory.Total());
    lower = std::max(lower, recomputed.lower);
    upper = std::max(upper, recomputed.upper);
    const Bytes usable = problem.usable_memory(recomputed.group);
    if (fits.ok() && recomputed.upper > usable) {
      fits = WrongPrediction(absl::StrCat("stage ", device, ": it may need ",
                                          recomputed.upper.count(), " bytes of ", usable.count()));
    }
  }
  SimulatedPipeline pipeline;
  pipeline.schedule = plan.schedule;
  pipeline.virtual_stage_count = plan.virtual_stage_count;
  pipeline.micro_batch_group_size = plan.micro_batch_group_size;
  pipeline.blocking_messages = costs.runtime().blocking_pipeline_messages;
  pipeline.serial_messages = costs.runtime().serial_pipeline_messages;
  pipeline.stages = std::move(simulated);
  const Seconds step = SimulateStep(pipeline, plan.micro_batch_count) + costs.step_overhead();
  for (int index = 0; index < stage_count; ++index) {
    const StagePrediction& promised = prediction.stages[index];
    stages[index].idle_ratio = IdleRatio(stages[index], plan.micro_batch_count,
                                         costs.step_overhead(), step, promised.idle_ratio);
    PARPLAN_RETURN_IF_ERROR(CompareStage(absl::StrCat("stage ", index), promised, stages[index]));
  }
  PARPLAN_RETURN_IF_ERROR(Expect("step", prediction.step, step));
  PARPLAN_RETURN_IF_ERROR(Expect("samples_per_second", prediction.samples_per_second,
                                 static_cast<double>(plan.global_batch_size) / step.value()));
  PARPLAN_RETURN_IF_ERROR(Expect("peak_memory", prediction.peak_memory, peak));
  PARPLAN_RETURN_IF_ERROR(
      Expect("usable_memory", prediction.usable_memory, problem.usable_memory()));
  PARPLAN_RETURN_IF_ERROR(Expect("peak_memory_lower", prediction.peak_memory_lower, lower));
  PARPLAN_RETURN_IF_ERROR(Expect("peak_memory_upper", prediction.peak_memory_upper, upper));
  PARPLAN_RETURN_IF_ERROR(fits);
  PARPLAN_RETURN_IF_ERROR(CheckStepRange(problem, costs, plan, prediction, step));
  std::vector<std::string> estimated = costs.estimated_items();
  Confidence confidence = costs.confidence();
  const auto add_item = [&](const char* item) {
    estimated.emplace_back(item);
    confidence = std::max(confidence, Confidence::kMixed);
  };
  if (plan.schedule == Schedule::kZeroBubble) add_item(kSplitBackwardItem);
  bool has_hybrid_groups = false;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      has_hybrid_groups |= run.strategy.sharding_degree > 0;
    }
  }
  if (has_hybrid_groups && costs.estimates_hybrid_groups()) add_item(kHybridGroupsItem);
  if (prediction.confidence != confidence || prediction.estimated_items != estimated) {
    return WrongPrediction("estimated items or confidence are not those of the cost model");
  }
  return absl::OkStatus();
}

}  // namespace parplan
