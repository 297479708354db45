#include "planner/check/plan_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "planner/check/schedule_simulation.h"
#include "planner/cost/cost_model.h"

namespace parplan {
namespace {

constexpr double kTolerance = 1e-6;

absl::Status Broken(const std::string& fact) {
  return MakeError(absl::StatusCode::kInternal, Reason::kCheckFailed,
                   absl::StrCat("the plan does not hold what it promises: ", fact,
                                "; report this with the problem"));
}

// Whether two numbers agree, relative to the larger one.
bool Close(double a, double b) {
  return a == b || std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

absl::Status Expect(const std::string& what, double promised, double recomputed) {
  if (Close(promised, recomputed)) return absl::OkStatus();
  return Broken(
      absl::StrFormat("%s is promised as %.9g, recomputed as %.9g", what, promised, recomputed));
}

absl::Status Expect(const std::string& what, Seconds promised, Seconds recomputed) {
  return Expect(absl::StrCat(what, " in seconds"), promised.value(), recomputed.value());
}

absl::Status Expect(const std::string& what, Bytes promised, Bytes recomputed) {
  return Expect(absl::StrCat(what, " in bytes"), promised.as_double(), recomputed.as_double());
}

// One stage, layer by layer.
StagePrediction RecomputeStage(const PlanningProblem& problem, const CostModel& costs,
                               const Plan& plan, int stage_index) {
  const StagePlan& stage = plan.stages[stage_index];
  const int stage_count = plan.pipeline_parallel_degree();
  const int64_t micro_batch = plan.global_batch_size / plan.micro_batch_count;
  StagePrediction sum;
  sum.in_flight_micro_batch_count =
      plan.schedule == Schedule::kGpipe && stage_count > 1
          ? plan.micro_batch_count
          : std::min<int64_t>(stage_count - stage_index, plan.micro_batch_count);
  const Strategy* before = nullptr;
  int definition = 0;
  for (const StageLayerRun& run : stage.layer_runs) {
    for (int layer = run.first_layer_index; layer < run.first_layer_index + run.layer_count;
         ++layer) {
      definition = problem.model().definition_of_layer()[layer];
      const LayerCost cost = costs.CostOfLayer(definition, run.strategy, micro_batch);
      const Seconds moving =
          before == nullptr ? Seconds()
                            : costs.TransitionTime(definition, *before, run.strategy, micro_batch);
      sum.forward += cost.forward + 0.5 * moving;
      sum.backward += cost.backward + 0.5 * moving;
      sum.gradient_sync += cost.gradient_sync;
      for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
        sum.time.duration[kind] += cost.time.duration[kind];
      }
      sum.time[TimeItemKind::kResharding] += moving;
      sum.memory[MemoryItemKind::kParameters] += cost.parameters;
      sum.memory[MemoryItemKind::kGradients] += cost.gradients;
      sum.memory[MemoryItemKind::kOptimizerStates] += cost.optimizer_states;
      const bool recomputes = run.strategy.recompute_level != RecomputeLevel::kNone;
      sum.memory[recomputes ? MemoryItemKind::kCheckpoints : MemoryItemKind::kActivations] +=
          cost.kept_per_micro_batch * sum.in_flight_micro_batch_count;
      Bytes& transient = sum.memory[MemoryItemKind::kTransient];
      transient = std::max(transient, cost.transient);
      before = &run.strategy;
    }
  }
  sum.memory[MemoryItemKind::kContext] = costs.context_memory();
  if (stage_index + 1 < stage_count) {
    sum.send = costs.SendTime(definition, *before, stage.rank_count, micro_batch);
  }
  return sum;
}

absl::Status CompareStage(const std::string& stage, const StagePrediction& promised,
                          const StagePrediction& recomputed) {
  PARPLAN_RETURN_IF_ERROR(
      Expect(absl::StrCat(stage, " forward"), promised.forward, recomputed.forward));
  PARPLAN_RETURN_IF_ERROR(
      Expect(absl::StrCat(stage, " backward"), promised.backward, recomputed.backward));
  PARPLAN_RETURN_IF_ERROR(Expect(absl::StrCat(stage, " gradient_sync"), promised.gradient_sync,
                                 recomputed.gradient_sync));
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
  return absl::OkStatus();
}

// Share of the step in which a stage does nothing. Compared absolutely, because
// it may be the difference of nearly equal numbers.
double IdleRatio(const StagePrediction& stage, int64_t micro_batch_count, Seconds step,
                 double promised) {
  const Seconds busy = (stage.forward + stage.backward) * static_cast<double>(micro_batch_count) +
                       stage.gradient_sync;
  const double idle = std::max(0.0, 1.0 - busy / step);
  return std::abs(idle - promised) <= kTolerance ? promised : idle;
}

}  // namespace

absl::Status CheckPlan(const PlanningProblem& problem, const Plan& plan,
                       const Prediction& prediction) {
  PARPLAN_RETURN_IF_ERROR(CheckPlanStructure(problem, plan));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  const int stage_count = plan.pipeline_parallel_degree();
  if (static_cast<int>(prediction.stages.size()) != stage_count) {
    return Broken(absl::StrCat(prediction.stages.size(), " stages are predicted of ", stage_count));
  }
  std::vector<StagePrediction> stages;
  std::vector<SimulatedStage> simulated;
  Bytes peak;
  for (int index = 0; index < stage_count; ++index) {
    stages.push_back(RecomputeStage(problem, costs, plan, index));
    const StagePrediction& stage = stages.back();
    peak = std::max(peak, stage.memory.Total());
    simulated.push_back({.forward = stage.forward,
                         .backward = stage.backward,
                         .send = stage.send,
                         .gradient_sync = stage.gradient_sync,
                         .most_in_flight = stage.in_flight_micro_batch_count});
  }
  const Seconds step = SimulateStep(simulated, plan.micro_batch_count);
  for (int index = 0; index < stage_count; ++index) {
    const StagePrediction& promised = prediction.stages[index];
    stages[index].idle_ratio =
        IdleRatio(stages[index], plan.micro_batch_count, step, promised.idle_ratio);
    PARPLAN_RETURN_IF_ERROR(CompareStage(absl::StrCat("stage ", index), promised, stages[index]));
  }
  PARPLAN_RETURN_IF_ERROR(Expect("step", prediction.step, step));
  PARPLAN_RETURN_IF_ERROR(Expect("samples_per_second", prediction.samples_per_second,
                                 static_cast<double>(plan.global_batch_size) / step.value()));
  PARPLAN_RETURN_IF_ERROR(Expect("peak_memory", prediction.peak_memory, peak));
  PARPLAN_RETURN_IF_ERROR(
      Expect("usable_memory", prediction.usable_memory, problem.usable_memory()));
  if (peak > problem.usable_memory()) {
    return Broken(
        absl::StrCat("it needs ", peak.count(), " bytes of ", problem.usable_memory().count()));
  }
  if (prediction.confidence != costs.confidence() ||
      prediction.estimated_items != costs.estimated_items()) {
    return Broken("it does not say what rests on estimates");
  }
  return absl::OkStatus();
}

}  // namespace parplan
