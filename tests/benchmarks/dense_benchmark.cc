// How long Galvatron's dense programme takes for one stage. Run a Release build of it by
// itself on an idle machine: `cmake --preset bench && cmake --build build/bench -t
// dense_benchmark`, then `build/bench/benchmarks/dense_benchmark`.

#include <benchmark/benchmark.h>

#include <random>

#include "planner/search/stage/dense_assignment.h"

namespace parplan {
namespace {

// Arguments: layers, MiB of the budget, strategies, layouts, and the budget as
// hundredths of what strategies need on average. Every layer is of one kind, as in
// the papers' experiments with BERT (32 layers, 20,480 MB, 22 strategies). As many layouts as
// strategies is the programme with a cost between any two.
void OneStage(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto draw = [&random] { return static_cast<double>(random() % 1000) / 1000.0; };
  DenseStage stage;
  stage.layout_count = static_cast<int>(state.range(3));
  const auto layer_count = static_cast<int>(state.range(0));
  const double mean = 100.0 * static_cast<double>(state.range(1)) / layer_count /
                      static_cast<double>(state.range(4));
  DenseKind kind;
  for (int option = 0; option < state.range(2); ++option) {
    // Strategies that take less memory take longer, about.
    const double share = draw();
    const double time = 10.0 + 10.0 * (1.0 - share) + 2.0 * draw();
    kind.options.push_back({.layout = option % stage.layout_count,
                            .time = Seconds::Milliseconds(time),
                            .units = static_cast<int64_t>(mean * (0.2 + 1.6 * share))});
  }
  for (int slot = 0; slot < stage.layout_count * stage.layout_count; ++slot) {
    const bool same = slot / stage.layout_count == slot % stage.layout_count;
    kind.transitions.push_back(Seconds::Milliseconds(same ? 0.0 : draw()));
  }
  stage.kinds = {kind};
  stage.kind_of_layer.assign(layer_count, 0);
  const SearchControl control;
  double seconds = 0.0;
  for (auto step : state) {
    SearchMeter meter(control);
    DenseAssignment programme(stage, state.range(1), state.range(1), meter);
    const std::optional<DenseSolution> solution = programme.At(state.range(1));
    seconds = solution ? solution->time.value() : 0.0;
    benchmark::DoNotOptimize(seconds);
  }
  state.counters["stage_seconds"] = seconds;
}
BENCHMARK(OneStage)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"layers", "MiB", "strategies", "layouts", "budget_percent"})
    ->Args({32, 8192, 22, 6, 70})
    ->Args({32, 20480, 22, 6, 50})
    ->Args({32, 20480, 22, 6, 70})
    ->Args({32, 20480, 22, 6, 100})
    ->Args({32, 20480, 22, 22, 70})
    ->Args({48, 20480, 22, 6, 70})
    ->Args({32, 40960, 22, 6, 70})
    ->Args({80, 40960, 30, 8, 70})
    ->Args({96, 81920, 30, 8, 70});

}  // namespace
}  // namespace parplan
