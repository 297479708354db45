// How long one plan takes to predict. Run a Release build of it by itself on an idle
// machine: `cmake --preset bench && cmake --build build/bench -t evaluation_benchmark`,
// then `build/bench/benchmarks/evaluation_benchmark`.

#include <benchmark/benchmark.h>

#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

// GPT-3 175B on 4,096 devices, 4,096 samples a step: stages of 16, tensor parallelism
// of 4 or 8, micro-batches of one sample a replica.
UniformPlan GptPlan(int tensor_parallel_degree, int virtual_stage_count) {
  UniformPlan uniform;
  uniform.pipeline_parallel_degree = 16;
  uniform.virtual_stage_count = virtual_stage_count;
  uniform.strategy.tensor_parallel_degree = tensor_parallel_degree;
  uniform.strategy.sequence_parallel = true;
  uniform.strategy.data_parallel_degree = 4096 / 16 / tensor_parallel_degree;
  uniform.strategy.sharding_level = ShardingLevel::kOptimizer;
  uniform.strategy.recompute_level = RecomputeLevel::kFull;
  uniform.micro_batch_count = 4096 / uniform.strategy.data_parallel_degree;
  return uniform;
}

// Warm: the layers' costs are known, as they are all through a search.
void EvaluateOnePlan(benchmark::State& state) {
  const PlanningProblem problem = EstimatedProblem();
  const CostModel costs = *CostModel::Create(problem);
  const Plan plan =
      PlanOf(problem, GptPlan(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
  PlanEvaluator evaluator(problem, costs);
  PlanScore score;
  for (auto iteration : state) {
    score = evaluator.Evaluate(plan);
    benchmark::DoNotOptimize(score);
  }
  state.counters["step_seconds"] = score.step.value();
  state.counters["peak_gigabytes"] = score.peak_memory.as_double() * 1e-9;
}
BENCHMARK(EvaluateOnePlan)
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"tensor", "virtual"})
    ->ArgsProduct({{4, 8}, {1, 2, 6}});

// Cold: one layer under one strategy for the first time.
void CostOneLayer(benchmark::State& state) {
  const PlanningProblem problem = EstimatedProblem();
  const CostModel costs = *CostModel::Create(problem);
  const UniformPlan uniform = GptPlan(8, 1);
  for (auto iteration : state) {
    benchmark::DoNotOptimize(costs.group(kFirstGroup).CostOfLayer(1, uniform.strategy, 32, 16));
  }
}
BENCHMARK(CostOneLayer)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace parplan
