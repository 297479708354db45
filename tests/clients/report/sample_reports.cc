#include "tests/clients/report/sample_reports.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

// The n-th of many strategies of `device_count` devices, all different until
// they start over.
Strategy NthStrategy(int n, int device_count) {
  int powers = 0;
  while ((2 << powers) <= device_count) ++powers;
  Strategy strategy;
  strategy.recompute_level = n % 2 == 0 ? RecomputeLevel::kFull : RecomputeLevel::kNone;
  n /= 2;
  strategy.tensor_parallel_degree = device_count >> (n % (powers + 1));
  strategy.data_parallel_degree = device_count / strategy.tensor_parallel_degree;
  n /= powers + 1;
  if (strategy.data_parallel_degree > 1 && n % 2 == 1) {
    strategy.sharding_level = ShardingLevel::kParameters;
  }
  if (strategy.data_parallel_degree > 1 && strategy.tensor_parallel_degree > 1 && n / 2 % 2 == 1) {
    strategy.rank_order = RankOrder::kDataInnermost;
  }
  return strategy;
}

// Layers of one stage as runs: an embedding first, a head last, runs of equal
// layers between them.
StagePlan MakeStage(const SampleShape& shape, int stage, int first_layer, int layer_count) {
  StagePlan part;
  part.first_rank = stage % shape.device_group_count() * shape.devices_per_stage;
  part.rank_count = shape.devices_per_stage;
  const int runs = std::clamp(shape.strategy_count / shape.stage_count, 1, layer_count);
  for (int i = 0; i < runs; ++i) {
    int begin = first_layer + layer_count * i / runs;
    int end = first_layer + layer_count * (i + 1) / runs;
    const int number = shape.strategy_count > shape.stage_count ? stage * runs + i : stage + i;
    const Strategy strategy = NthStrategy(number % shape.strategy_count, shape.devices_per_stage);
    if (begin == 0 && end > 1) part.layer_runs.push_back({begin++, 1, strategy});
    const bool head = end == shape.layer_count && end - begin > 1;
    if (head) --end;
    part.layer_runs.push_back({begin, end - begin, strategy});
    if (head) part.layer_runs.push_back({end, 1, strategy});
  }
  return part;
}

StagePrediction PredictSampleStage(const SampleShape& shape, const StagePlan& part, int stage) {
  const double layers = part.layer_count();
  StagePrediction expected;
  expected.time[TimeItemKind::kForwardCompute] = Seconds::Milliseconds(5.1 * layers);
  expected.time[TimeItemKind::kBackwardCompute] = Seconds::Milliseconds(9.9 * layers);
  expected.time[TimeItemKind::kTensorParallel] = Seconds::Milliseconds(2.3 * layers);
  for (const StageLayerRun& run : part.layer_runs) {
    if (run.strategy.recompute_level == RecomputeLevel::kFull) {
      expected.time[TimeItemKind::kRecompute] += Seconds::Milliseconds(5.1 * run.layer_count);
      expected.memory[MemoryItemKind::kCheckpoints] += Bytes::Of(67'000'000) * run.layer_count;
    }
    if (run.strategy.sharding_level == ShardingLevel::kParameters) {
      expected.time[TimeItemKind::kShardedDataParallel] +=
          Seconds::Milliseconds(1.7 * run.layer_count);
    }
  }
  if (part.layer_runs.size() > 1) {
    expected.time[TimeItemKind::kResharding] =
        Seconds::Milliseconds(0.9 * static_cast<double>(part.layer_runs.size() - 1));
  }
  expected.forward = expected.time.Total() * 0.35;
  expected.backward = expected.time.Total() * 0.65;
  expected.send = Seconds::Milliseconds(stage + 1 < shape.stage_count ? 1.4 : 0.0);
  expected.gradient_sync = Seconds::Milliseconds(38.0);
  const Schedule schedule =
      shape.schedule == Schedule::kInterleaved ? Schedule::kOneForwardOneBackward : shape.schedule;
  expected.in_flight_micro_batch_count =
      InFlightMicroBatchCount(schedule, shape.device_group_count(),
                              stage % shape.device_group_count(), shape.micro_batch_count);
  const int64_t states = int64_t{405'000'000} / shape.devices_per_stage * part.layer_count();
  expected.memory[MemoryItemKind::kParameters] = Bytes::Of(states);
  expected.memory[MemoryItemKind::kGradients] = Bytes::Of(states);
  expected.memory[MemoryItemKind::kOptimizerStates] = Bytes::Of(6 * states);
  expected.memory[MemoryItemKind::kActivations] =
      Bytes::Of(expected.in_flight_micro_batch_count * part.layer_count() * 31'000'000);
  expected.memory[MemoryItemKind::kTransient] = Bytes::Of(1'300'000'000);
  expected.memory[MemoryItemKind::kContext] = Bytes::Of(950'000'000);
  return expected;
}

// The part of an additional device in a stage.
void AddStage(const StagePrediction& more, StagePrediction& sum) {
  sum.forward += more.forward;
  sum.backward += more.backward;
  sum.gradient_sync += more.gradient_sync;
  sum.send += more.send;
  for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
    sum.time.duration[kind] += more.time.duration[kind];
  }
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    sum.memory.size[kind] += more.memory.size[kind];
  }
}

std::string Digest(char digit) { return absl::StrCat("sha256:", std::string(64, digit)); }

}  // namespace

ReportInput SampleReport(const SampleShape& shape) {
  PARPLAN_CHECK(shape.layer_count >= shape.stage_count);
  ReportInput input;
  input.planner = "galvatron-base";
  Plan& plan = input.plan;
  plan.virtual_stage_count = shape.virtual_stage_count;
  plan.device_count = shape.device_group_count() * shape.devices_per_stage;
  plan.global_batch_size = shape.micro_batch_count * 8;
  plan.micro_batch_count = shape.micro_batch_count;
  plan.schedule = shape.schedule;
  Prediction& prediction = input.prediction;
  std::vector<StageTimes> times;
  for (int stage = 0; stage < shape.stage_count; ++stage) {
    const int first = static_cast<int>(int64_t{shape.layer_count} * stage / shape.stage_count);
    const int end = static_cast<int>(int64_t{shape.layer_count} * (stage + 1) / shape.stage_count);
    plan.stages.push_back(MakeStage(shape, stage, first, end - first));
    const StagePrediction expected = PredictSampleStage(shape, plan.stages.back(), stage);
    times.push_back({expected.forward, expected.backward, expected.send, expected.gradient_sync});
    if (stage < shape.device_group_count()) {
      prediction.stages.push_back(expected);
    } else {
      AddStage(expected, prediction.stages[stage % shape.device_group_count()]);
    }
  }
  for (const StagePrediction& stage : prediction.stages) {
    prediction.peak_memory = std::max(prediction.peak_memory, stage.peak_memory());
  }
  prediction.peak_memory_lower = Bytes::Ceil(prediction.peak_memory.as_double() * 0.95);
  prediction.peak_memory_upper = Bytes::Ceil(prediction.peak_memory.as_double() * 1.04);
  const PipelineRules rules = {.schedule = plan.schedule,
                               .virtual_stage_count = plan.virtual_stage_count};
  prediction.step = StepTime(rules, times, plan.micro_batch_count);
  prediction.step_lower = prediction.step * 0.94;
  prediction.step_upper = prediction.step * 1.07;
  prediction.samples_per_second =
      static_cast<double>(plan.global_batch_size) / prediction.step.value();
  prediction.usable_memory = Bytes::Ceil(prediction.peak_memory.as_double() * 1.08);
  for (StagePrediction& stage : prediction.stages) {
    const Seconds busy =
        (stage.forward + stage.backward) * static_cast<double>(plan.micro_batch_count) +
        stage.gradient_sync;
    stage.idle_ratio = 1.0 - busy / prediction.step;
  }
  prediction.bottleneck_text = "tensor-parallel collectives take 14 % of the step on stage 0";
  prediction.confidence = Confidence::kMixed;
  prediction.estimated_items = {"embedding: backward time taken as twice the forward",
                                "all-to-all over 8 ranks: none measured, all-gather taken"};
  input.search.termination = Termination::kFeasible;
  input.search.limit = SearchLimit::kTime;
  input.search.bound = prediction.step * 0.968;
  input.search.gap_ratio = 0.032;
  for (int layer = 0; layer < shape.layer_count; ++layer) {
    input.layer_names.push_back(layer == 0                       ? "embedding"
                                : layer + 1 == shape.layer_count ? "head"
                                                                 : "decoder");
  }
  input.title = absl::StrCat("llama2-7b on ", plan.device_count, " x NVIDIA A100-SXM4-40GB");
  input.rivals = SampleRivals();
  input.facts = {
      {"plan", "clusters/lab/plans/p-3f9a1c20"}, {"planner", "galvatron-base, release 0.1.0"},
      {"signature", "signed, not verified"},     {"model digest", Digest('a')},
      {"topology digest", Digest('b')},          {"profile digest", Digest('c')}};
  return input;
}

void MoveLayersOfStage(int index, Plan& plan) {
  std::vector<StageLayerRun>& from = plan.stages[index].layer_runs;
  std::vector<StageLayerRun>& to = plan.stages[index - 1].layer_runs;
  to.insert(to.end(), from.begin(), from.end());
  from.clear();
}

std::vector<ReportRival> SampleRivals() {
  const auto feasible = [](std::string planner, double rate, double gigabytes, std::string gist) {
    ReportRival rival;
    rival.planner = std::move(planner);
    rival.feasible = true;
    rival.step = Seconds::Of(128.0 / rate);
    rival.samples_per_second = rate;
    rival.peak_memory = Bytes::Ceil(gigabytes * 1e9);
    rival.gist = std::move(gist);
    return rival;
  };
  const auto infeasible = [](std::string planner, double gigabytes) {
    ReportRival rival;
    rival.planner = std::move(planner);
    rival.smallest_device_memory = Bytes::Ceil(gigabytes * 1e9);
    return rival;
  };
  return {feasible("galvatron-base", 18.72, 35.9, "2-4*-1-c x17 | 2-2*-2f x17"),
          infeasible("dp", 121.4),
          feasible("sdp", 12.05, 33.1, "1-1-8f x34"),
          feasible("tp", 9.31, 28.8, "1-8-1 x34"),
          infeasible("dp+pp", 64.2),
          feasible("deepspeed-3d", 14.77, 36.6, "2-2*-2 x17 | 2-2*-2 x17")};
}

std::vector<PlanBeside> SamplePlansBeside(const ReportInput& input, int count) {
  std::vector<PlanBeside> plans;
  for (int i = 1; i <= count; ++i) {
    PlanBeside beside;
    beside.plan = input.plan;
    beside.plan.global_batch_size = input.plan.global_batch_size * i;
    beside.step = input.prediction.step * (1.0 + 0.25 * i);
    beside.samples_per_second = input.prediction.samples_per_second / (1.0 + 0.25 * i);
    beside.peak_memory = Bytes::Ceil(input.prediction.peak_memory.as_double() / (1.0 + i));
    plans.push_back(std::move(beside));
  }
  return plans;
}

std::vector<NamedReport> ReportGallery() {
  std::vector<NamedReport> gallery;
  const auto add = [&gallery](std::string name, const SampleShape& shape) -> ReportInput& {
    gallery.push_back({std::move(name), SampleReport(shape)});
    return gallery.back().input;
  };
  add("two-stages", {});
  add("one-stage", {.stage_count = 1, .devices_per_stage = 8, .micro_batch_count = 1});
  ReportInput& optimal = add("eight-stages", {.stage_count = 8,
                                              .devices_per_stage = 8,
                                              .layer_count = 82,
                                              .micro_batch_count = 32,
                                              .strategy_count = 8});
  optimal.search.termination = Termination::kOptimal;
  optimal.search.gap_ratio = 0.0;
  optimal.prediction.confidence = Confidence::kMeasured;
  optimal.prediction.estimated_items.clear();
  add("sixty-four-stages", {.stage_count = 64,
                            .devices_per_stage = 16,
                            .layer_count = 96,
                            .micro_batch_count = 256,
                            .strategy_count = 3});
  add("many-strategies",
      {.stage_count = 2, .devices_per_stage = 64, .layer_count = 98, .strategy_count = 40});
  add("many-layers", {.stage_count = 1,
                      .devices_per_stage = 8,
                      .layer_count = 2000,
                      .micro_batch_count = 4096,
                      .strategy_count = 1000});
  add("gpipe", {.stage_count = 4,
                .devices_per_stage = 2,
                .micro_batch_count = 8,
                .strategy_count = 4,
                .schedule = Schedule::kGpipe});
  add("gpipe-long", {.stage_count = 4, .micro_batch_count = 512, .schedule = Schedule::kGpipe});
  add("interleaved", {.stage_count = 8,
                      .devices_per_stage = 8,
                      .layer_count = 82,
                      .micro_batch_count = 16,
                      .strategy_count = 4,
                      .schedule = Schedule::kInterleaved,
                      .virtual_stage_count = 2});
  add("interleaved-long", {.stage_count = 12,
                           .layer_count = 48,
                           .micro_batch_count = 512,
                           .schedule = Schedule::kInterleaved,
                           .virtual_stage_count = 3})
      .blocking_messages = true;
  MoveLayersOfStage(2, add("empty-stage", {.stage_count = 6,
                                           .micro_batch_count = 12,
                                           .schedule = Schedule::kInterleaved,
                                           .virtual_stage_count = 2})
                           .plan);
  ReportInput& over = add("does-not-fit", {.stage_count = 4});
  over.prediction.usable_memory = Bytes::Ceil(over.prediction.peak_memory.as_double() * 0.4);
  over.search = SearchSummary();
  for (ReportRival& rival : over.rivals) {
    rival.feasible = false;
    rival.smallest_device_memory = Bytes::Of(86'000'000'000);
  }
  over.rivals.back().smallest_device_memory = Bytes();
  ReportInput& names = add("long-names", {.stage_count = 3, .strategy_count = 6});
  names.title = absl::StrCat(std::string(120, 'W'), " on ", std::string(400, 'm'));
  names.planner = "a-planner-<b>with</b>-\"quotes\"-&-'more'-" + std::string(90, 'x');
  for (std::string& name : names.layer_names) name = "layer-" + std::string(300, 'W');
  names.prediction.estimated_items = {std::string(500, 'e'),
                                      "Zürich, 東京, \xF0\x9F\x9A\x80, \xFF"};
  names.rivals.front().planner = std::string(200, 'p');
  names.rivals.front().gist = std::string(3000, 'g');
  names.facts = {{std::string(60, 'L'), std::string(2000, 'f')}, {"nodes", "a, b, c"}};
  return gallery;
}

}  // namespace parplan
