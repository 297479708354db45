// How long the search takes. Run a Release build of it by itself on an idle
// machine: `cmake --preset bench && cmake --build build/bench -t search_benchmark`,
// then `build/bench/benchmarks/search_benchmark`.

#include <benchmark/benchmark.h>

#include <variant>

#include "planner/base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/search/find_plan.h"
#include "planner/search/layer_assignment.h"
#include "planner/search/stage_tables.h"
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

// Arguments: decoders, devices, batch, GiB of a device.
void FindWholePlan(benchmark::State& state) {
  const PlanningProblem problem =
      SyntheticProblem(Model(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                             state.range(2), state.range(3)));
  SearchSummary summary;
  for (auto step : state) {
    const absl::StatusOr<PlanningResult> result = FindPlan(problem, "galvatron-base");
    PARPLAN_CHECK(result.ok());
    if (const auto* found = std::get_if<PlanFound>(&*result)) {
      summary = found->search;
      state.SetLabel(PlanGist(found->plan).substr(0, 120));
    } else {
      state.SetLabel("nothing fits");
    }
  }
  state.counters["states"] = static_cast<double>(summary.expanded_state_count);
  state.counters["candidates"] = static_cast<double>(summary.candidate_count);
  state.counters["gap"] = summary.gap_ratio;
}
BENCHMARK(FindWholePlan)
    ->Unit(benchmark::kMillisecond)
    ->Args({32, 8, 64, 24})
    ->Args({32, 8, 64, 40})
    ->Args({32, 8, 64, 80})
    ->Args({32, 64, 256, 24})
    ->Args({80, 64, 512, 40})
    ->Args({80, 1024, 2048, 24})
    ->Args({80, 1024, 2048, 40})
    ->Args({80, 1024, 2048, 80});

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
