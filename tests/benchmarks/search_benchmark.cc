// How long `exact` searches, row by row of docs/measurements/search.md. Run a Release build
// by itself on an idle machine: `cmake --preset bench && cmake --build build/bench -t
// search_benchmark`, then `build/bench/benchmarks/search_benchmark`.

#include <benchmark/benchmark.h>

#include <string>
#include <variant>

#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "planner/planners/baselines/stage_tables.h"
#include "planner/search/stage/layer_assignment.h"
#include "tests/benchmarks/exact_cases.h"
#include "tests/benchmarks/timed_search.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

// A model of 7 billion parameters (32 layers) or 65 billion (80 layers).
SyntheticOptions Model(int decoder_count, int device_count, int64_t batch, int64_t gibibytes) {
  SyntheticOptions options{.device_count = device_count,
                           .decoder_count = decoder_count,
                           .hidden_size = decoder_count > 40 ? 8192 : 4096,
                           .attention_head_count = decoder_count > 40 ? 64 : 32,
                           .sequence_length = 2048,
                           .global_batch_size = batch};
  options.device_memory = Bytes::Of(gibibytes << 30);
  return options;
}

// Argument: threads.
void Exact(benchmark::State& state, const ExactCase& exact_case) {
  TimeSearch(state, ProblemOf(exact_case), "exact", static_cast<int>(state.range(0)));
}

benchmark::internal::Benchmark* Row(const char* name, const ExactCase& exact_case) {
  return benchmark::RegisterBenchmark(
      name, [exact_case](benchmark::State& state) { Exact(state, exact_case); });
}

ExactCase WithBatches(ExactCase exact_case, int64_t smallest, int64_t largest, int64_t step) {
  exact_case.smallest_global_batch_size = smallest;
  exact_case.global_batch_size = largest;
  exact_case.global_batch_size_step = step;
  return exact_case;
}

// The rows of the table, each over the complete space, on one thread and on two.
const bool kRegistered = [] {
  for (benchmark::internal::Benchmark* row :
       {Row("exact/llama-70b/64", Llama70B(64, 512)),
        Row("exact/llama-70b/512", Llama70B(512, 1024)),
        Row("exact/llama-70b/1024", Llama70B(1024, 2048)),
        Row("exact/llama-70b/64/batches-8-to-512", WithBatches(Llama70B(64, 512), 8, 512, 8)),
        Row("exact/gpt-3/4096", Gpt3()),
        Row("exact/2048-layers-of-3-kinds/1024", ManyLayers(2048, 3, 1024)),
        Row("exact/1000-layers-of-998-kinds/1024", ManyLayers(1000, 998, 1024)),
        Row("exact/10000-layers-of-8-kinds/16384", ManyLayers(10000, 8, 16384))}) {
    row->Unit(benchmark::kMillisecond)->UseRealTime()->ArgName("threads")->Arg(1)->Arg(2);
  }
  return true;
}();

// One stage over all devices. Arguments: decoders, devices, budget as
// thousandths of the way from the least memory to the most that helps.
void AssignOneStage(benchmark::State& state) {
  const SyntheticOptions options =
      Model(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 1024, 80);
  const PlanningProblem problem = SyntheticProblem(options);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  const StageTables tables(problem, *costs, SearchSpace{}, 1, 1);
  const StageChoices choices =
      tables.ChoicesOfStage(0, problem.model().layer_count(), 0, tables.WholeStep());
  const SearchControl control;
  SearchMeter unlimited(control);
  const auto fastest = AssignStrategies(choices, Bytes::Of(int64_t{1} << 50), unlimited);
  const Bytes least = SmallestBudget(choices);
  const Bytes most = std::get<StageAssignment>(fastest).peak;
  const Bytes budget = least + Bytes::Of((most - least).count() / 1000 * state.range(2));
  int64_t states = 0;
  for (auto step : state) {
    SearchMeter meter(control);
    benchmark::DoNotOptimize(AssignStrategies(choices, budget, meter));
    states = meter.expanded_state_count();
  }
  state.counters["states"] = static_cast<double>(states);
  state.counters["strategies"] = static_cast<double>(tables.entries()[1].size());
}
BENCHMARK(AssignOneStage)
    ->Unit(benchmark::kMillisecond)
    ->Args({32, 8, 300})
    ->Args({32, 1024, 50})
    ->Args({32, 1024, 300})
    ->Args({32, 1024, 700})
    ->Args({80, 1024, 50})
    ->Args({80, 1024, 300})
    ->Args({80, 1024, 700});

}  // namespace
}  // namespace parplan
