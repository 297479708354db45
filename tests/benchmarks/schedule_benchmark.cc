// How long one step takes to play. Run a Release build of it by itself on an idle
// machine: `cmake --preset bench && cmake --build build/bench -t schedule_benchmark`,
// then `build/bench/benchmarks/schedule_benchmark`.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

// GPT-3 of 96 layers over 16 devices: the first and the last stage do a little more.
std::vector<StageTimes> Stages(int device_count, int virtual_stage_count) {
  const double share = 1.0 / virtual_stage_count;
  std::vector<StageTimes> stages(
      static_cast<size_t>(device_count) * static_cast<size_t>(virtual_stage_count),
      {Seconds::Milliseconds(60 * share), Seconds::Milliseconds(120 * share),
       Seconds::Milliseconds(0.6), Seconds::Milliseconds(30)});
  stages.front().forward += Seconds::Milliseconds(1.5);
  stages.back().forward += Seconds::Milliseconds(6.5);
  stages.back().backward += Seconds::Milliseconds(13);
  return stages;
}

// Arguments: virtual stages a device, micro-batches, whether messages block.
void PlayOneStep(benchmark::State& state) {
  const PipelineRules rules = {
      .schedule = state.range(0) > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward,
      .virtual_stage_count = static_cast<int>(state.range(0)),
      .blocking_messages = state.range(2) != 0};
  const std::vector<StageTimes> stages = Stages(16, rules.virtual_stage_count);
  ScheduleEvaluator evaluator;
  Seconds step;
  for (auto iteration : state) {
    step = evaluator.StepTime(rules, stages, state.range(1));
    benchmark::DoNotOptimize(step);
  }
  state.counters["step_seconds"] = step.value();
}
BENCHMARK(PlayOneStep)
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"virtual", "micro_batches", "blocking"})
    ->ArgsProduct({{1, 6}, {48, 64, 512, 4096}, {0, 1}});

}  // namespace
}  // namespace parplan
