#include "planner/cost/predict_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

// Adds up the layers of one stage.
StagePrediction PredictStage(const PlanningProblem& problem, const CostModel& costs,
                             const Plan& plan, int stage_index) {
  const StagePlan& stage = plan.stages[stage_index];
  const int64_t micro_batch = plan.micro_batch_size();
  const std::vector<int>& definition_of_layer = problem.model().definition_of_layer();
  StagePrediction prediction;
  prediction.in_flight_micro_batch_count =
      InFlightMicroBatchCount(plan.schedule, plan.pipeline_parallel_degree(), stage_index,
                              plan.micro_batch_count);
  const int64_t in_flight = prediction.in_flight_micro_batch_count;
  Bytes transient;
  const StageLayerRun* previous = nullptr;
  for (const StageLayerRun& run : stage.layer_runs) {
    const int definition = definition_of_layer[run.first_layer_index];
    const LayerCost cost = costs.CostOfLayer(definition, run.strategy, micro_batch);
    const int64_t count = run.layer_count;
    prediction.forward += cost.forward * static_cast<double>(count);
    prediction.backward += cost.backward * static_cast<double>(count);
    prediction.gradient_sync += cost.gradient_sync * static_cast<double>(count);
    for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
      prediction.time.duration[kind] += cost.time.duration[kind] * static_cast<double>(count);
    }
    prediction.memory[MemoryItemKind::kParameters] += cost.parameters * count;
    prediction.memory[MemoryItemKind::kGradients] += cost.gradients * count;
    prediction.memory[MemoryItemKind::kOptimizerStates] += cost.optimizer_states * count;
    const bool recompute = run.strategy.recompute_level == RecomputeLevel::kFull;
    prediction.memory[recompute ? MemoryItemKind::kCheckpoints : MemoryItemKind::kActivations] +=
        cost.kept_per_micro_batch * (count * in_flight);
    transient = std::max(transient, cost.transient);
    if (previous != nullptr) {
      const Seconds move =
          costs.TransitionTime(definition, previous->strategy, run.strategy, micro_batch);
      prediction.time[TimeItemKind::kResharding] += move;
      prediction.forward += move * 0.5;
      prediction.backward += move * 0.5;
    }
    previous = &run;
  }
  prediction.memory[MemoryItemKind::kTransient] = transient;
  prediction.memory[MemoryItemKind::kContext] = costs.context_memory();
  if (stage_index + 1 < plan.pipeline_parallel_degree()) {
    const StageLayerRun& last = stage.layer_runs.back();
    prediction.send = costs.SendTime(definition_of_layer[last.first_layer_index], last.strategy,
                                     stage.rank_count, micro_batch);
  }
  return prediction;
}

// Names what costs most time beyond plain computation on the busiest stage.
void NameBottleneck(const Plan& plan, Prediction& prediction) {
  const double m = static_cast<double>(plan.micro_batch_count);
  const StagePrediction* busiest = nullptr;
  int busiest_index = 0;
  Seconds busiest_time;
  for (size_t i = 0; i < prediction.stages.size(); ++i) {
    const StagePrediction& stage = prediction.stages[i];
    const Seconds busy = (stage.forward + stage.backward) * m + stage.gradient_sync;
    if (busiest == nullptr || busy > busiest_time) {
      busiest = &stage;
      busiest_index = static_cast<int>(i);
      busiest_time = busy;
    }
  }
  const TimeItems& time = busiest->time;
  struct Candidate {
    Bottleneck bottleneck;
    Seconds cost;
    const char* text;
  };
  const Candidate candidates[] = {
      {Bottleneck::kMemory,
       (time[TimeItemKind::kRecompute] + time[TimeItemKind::kShardedDataParallel]) * m,
       "memory: recomputation and gathering sharded parameters, which save it, take"},
      {Bottleneck::kTensorParallel,
       (time[TimeItemKind::kTensorParallel] + time[TimeItemKind::kResharding]) * m,
       "tensor-parallel collectives take"},
      {Bottleneck::kDataParallel, busiest->gradient_sync,
       "the gradient synchronisation that nothing hides takes"},
      {Bottleneck::kPipelineBubble, prediction.step - busiest_time,
       "waiting of the busiest stage for other stages takes"},
  };
  // Below a tenth of the step nothing but computation is worth a name.
  constexpr double kWorthNaming = 0.1;
  const Candidate* worst = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.cost < prediction.step * kWorthNaming) continue;
    if (worst == nullptr || candidate.cost > worst->cost) worst = &candidate;
  }
  if (worst == nullptr) {
    const Seconds compute =
        (time[TimeItemKind::kForwardCompute] + time[TimeItemKind::kBackwardCompute]) * m;
    prediction.bottleneck = Bottleneck::kCompute;
    prediction.bottleneck_text =
        absl::StrFormat("computation takes %.0f %% of the step on stage %d",
                        100.0 * (compute / prediction.step), busiest_index);
    return;
  }
  prediction.bottleneck = worst->bottleneck;
  prediction.bottleneck_text = absl::StrFormat("%s %.0f %% of the step on stage %d", worst->text,
                                               100.0 * (worst->cost / prediction.step),
                                               busiest_index);
}

}  // namespace

Prediction PredictPlan(const PlanningProblem& problem, const CostModel& costs, const Plan& plan) {
  Prediction prediction;
  prediction.usable_memory = problem.usable_memory();
  std::vector<StageTimes> times;
  for (int i = 0; i < plan.pipeline_parallel_degree(); ++i) {
    prediction.stages.push_back(PredictStage(problem, costs, plan, i));
    const StagePrediction& stage = prediction.stages.back();
    times.push_back({stage.forward, stage.backward, stage.send, stage.gradient_sync});
    prediction.peak_memory = std::max(prediction.peak_memory, stage.peak_memory());
  }
  prediction.step = StepTime(plan.schedule, times, plan.micro_batch_count);
  prediction.samples_per_second =
      static_cast<double>(plan.global_batch_size) / prediction.step.value();
  for (StagePrediction& stage : prediction.stages) {
    const Seconds busy =
        (stage.forward + stage.backward) * static_cast<double>(plan.micro_batch_count) +
        stage.gradient_sync;
    stage.idle_ratio = std::max(0.0, 1.0 - busy / prediction.step);
  }
  NameBottleneck(plan, prediction);
  prediction.confidence = costs.confidence();
  prediction.estimated_items = costs.estimated_items();
  return prediction;
}

}  // namespace parplan
