// How long the planners with an integer program take.

#include <chrono>

#include <benchmark/benchmark.h>

#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_result.h"
#include "planner/planners/ilp/ilp_planners.h"
#include "planner/planners/ilp/mesh_search.h"
#include "tests/benchmarks/exact_cases.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

// GPT of 7.5 billion parameters (Narayanan et al., SC'21, table 1) on one node.
EstimatedOptions SevenBillion(int decoder_count) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = decoder_count;
  options.hidden_size = 4096;
  options.attention_head_count = 32;
  options.global_batch_size = 8;
  options.rules.micro_batch_count = 1;
  return options;
}

// One mesh of 2 x 4: the program alone, least memory and then least time.
void BM_LeastMemoryOnMesh(benchmark::State& state) {
  const PlanningProblem problem = EstimatedProblem(SevenBillion(static_cast<int>(state.range(0))));
  const CostModel costs = *CostModel::Create(problem);
  const auto folding = static_cast<Folding>(state.range(1));
  for (auto _ : state) {
    MeshSearch search(problem, costs, {}, folding);
    const auto solution = search.LeastMemory(search.meshes()[1], {8, 1});
    PARPLAN_CHECK(solution.has_value() && solution->answer.is_proved);
    state.counters["GiB"] = solution->answer.totals.memory_bytes() / (1 << 30);
    state.counters["ms"] = solution->answer.totals.seconds * 1e3;
    state.counters["nodes"] = static_cast<double>(solution->answer.node_count);
  }
}
BENCHMARK(BM_LeastMemoryOnMesh)
    ->ArgNames({"layers", "folding"})
    ->Args({36, static_cast<int>(Folding::kAll)})
    ->Args({36, static_cast<int>(Folding::kMiddle)})
    ->Args({4, static_cast<int>(Folding::kNone)})
    ->Args({8, static_cast<int>(Folding::kNone)})
    ->Args({36, static_cast<int>(Folding::kNone)})
    ->Unit(benchmark::kMillisecond);

// The whole planner: all meshes, one micro-batch.
void BM_MinMemoryIlp(benchmark::State& state) {
  const PlanningProblem problem = EstimatedProblem(SevenBillion(36));
  const CostModel costs = *CostModel::Create(problem);
  for (auto _ : state) {
    auto result = SearchMinMemoryIlp(problem, costs, {});
    PARPLAN_CHECK(result.has_value());
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_MinMemoryIlp)->Unit(benchmark::kMillisecond);

void BM_AlpaLike(benchmark::State& state) {
  const PlanningProblem problem = EstimatedProblem(SevenBillion(36));
  const CostModel costs = *CostModel::Create(problem);
  for (auto _ : state) {
    auto result = SearchAlpaLike(problem, costs, {});
    PARPLAN_CHECK(result.has_value());
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_AlpaLike)->Unit(benchmark::kMillisecond);

// How long the planner takes under a limit of so many milliseconds of real time: 40 layers, 38 of
// them unlike, on two nodes of eight devices, whose programs and plans cannot be proved in that
// time. One run each.
void BM_MinMemoryIlpUnderLimit(benchmark::State& state) {
  const PlanningProblem problem = ProblemOf(ManyLayers(40, 38, 16));
  const CostModel costs = *CostModel::Create(problem);
  for (auto _ : state) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(state.range(0));
    SearchControl control;
    control.should_stop = [end] { return std::chrono::steady_clock::now() >= end; };
    auto result = SearchMinMemoryIlp(problem, costs, control);
    PARPLAN_CHECK(result.has_value());
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_MinMemoryIlpUnderLimit)
    ->ArgName("limit_ms")
    ->Arg(50)
    ->Arg(2000)
    ->Arg(10000)
    ->Arg(40000)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace parplan
