// Reports the speed of one device, and how well plans on it are predicted:
//
//   device_report cuda|cpu [--plugin FILE] [--profile FILE] [--steps FILE] [--layers N]
//                          [--steps-only] [--look]
//
// the matrix peak in the precision of training; a layer's step of a GPT and a Llama as a share of
// that peak; and for plans of one device with and without recomputing, in micro-batches of several
// sizes, predicted beside measured time and memory. Predictions come from a profile that is
// measured here, as the agent does it; `--profile` keeps it, as JSON, and `--steps` the layers'
// times, a JSON object a line, to be compared with those of other runtimes; `--steps-only` measures
// nothing but these. `--look` says what the device is, and how many are visible, and ends. Where
// there is none the reason is told, and the program ends with 77. On a GPU the GPT has 1.3 thousand
// million parameters and trains in bf16; on a core it is small.
//
// On a GPU the program fails if a plan's step time is predicted more than 5 % off, or the driver's
// figure of its peak memory more than 3 %.

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/layer_probe/layer_probe.h"
#include "executor/layer_probe/time_spread.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/runtime_traits.h"
#include "profiler-agent/probe/probe_plan.h"
#include "profiler-agent/probe/probe_rank.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_wire.h"

namespace parplan {
namespace {

constexpr int64_t kBatch = 8;
constexpr int kWarmUp = 2;
constexpr int kSteps = 9;
// Goals on a GPU.
constexpr double kTimeGoal = 0.05;
constexpr double kMemoryGoal = 0.03;

struct Size {
  int hidden;
  int heads;
  int layers;
  int sequence;
  int vocabulary;
  int64_t product;
  ElementType type;
  Precision precision;
  absl::Duration time_budget;
};
const Size kGpu = {
    2048, 16, 24, 2048, 50304, 8192, ElementType::kBfloat16, Precision::kBf16, absl::Seconds(60)};
const Size kCore = {
    128, 4, 2, 64, 512, 512, ElementType::kFloat32, Precision::kFp32, absl::Seconds(20)};

// A layer whose step is measured beside that of other runtimes.
struct LayerCase {
  const char* name;
  int hidden;
  int heads;
  int key_value_heads;
  int feed_forward;
  FeedForwardKind kind;
  int sequence;
  int samples;
};
const LayerCase kGpuLayers[] = {
    {"gpt-1.3b", 2048, 16, 16, 8192, FeedForwardKind::kGelu, 2048, 1},
    {"gpt-1.3b", 2048, 16, 16, 8192, FeedForwardKind::kGelu, 2048, 8},
    {"gpt-1.3b", 2048, 16, 16, 8192, FeedForwardKind::kGelu, 8192, 1},
    {"llama-8b", 4096, 32, 8, 14336, FeedForwardKind::kSwiglu, 2048, 1},
    {"llama-8b", 4096, 32, 8, 14336, FeedForwardKind::kSwiglu, 8192, 1},
};

absl::StatusOr<ModelSpec> ModelOf(const LayerCase& each) {
  const auto layer = [&](LayerKind kind, const char* id) {
    LayerDefinition raw{.layer_definition_id = id,
                        .kind = kind,
                        .hidden_size = each.hidden,
                        .sequence_length = each.sequence};
    if (kind == LayerKind::kDecoder) {
      raw.attention_head_count = each.heads;
      raw.key_value_head_count = each.key_value_heads;
      raw.feed_forward_size = each.feed_forward;
      raw.feed_forward_kind = each.kind;
    } else {
      raw.vocabulary_size = 512;
    }
    return LayerDefinition::Create(raw, id);
  };
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition first, layer(LayerKind::kEmbedding, "embedding"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition middle, layer(LayerKind::kDecoder, "decoder"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition last, layer(LayerKind::kHead, "head"));
  return ModelSpec::Create(each.name, {first, middle, last}, {{0, 1}, {1, 2}, {2, 1}},
                           Precision::kBf16, Optimizer::kAdam);
}

absl::StatusOr<ModelSpec> MakeModel(const Size& size) {
  const auto layer = [&](LayerKind kind, const char* id) {
    LayerDefinition raw{.layer_definition_id = id,
                        .kind = kind,
                        .hidden_size = size.hidden,
                        .sequence_length = size.sequence};
    if (kind == LayerKind::kDecoder) {
      raw.attention_head_count = size.heads;
      raw.feed_forward_size = 4 * size.hidden;
      raw.feed_forward_kind = FeedForwardKind::kGelu;
    } else {
      raw.vocabulary_size = size.vocabulary;
    }
    return LayerDefinition::Create(raw, id);
  };
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition first, layer(LayerKind::kEmbedding, "embedding"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition middle, layer(LayerKind::kDecoder, "decoder"));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition last, layer(LayerKind::kHead, "head"));
  return ModelSpec::Create("gpt", {first, middle, last}, {{0, 1}, {1, size.layers}, {2, 1}},
                           size.precision, Optimizer::kAdam);
}

// A plan for one device with equal strategies in all layers.
Plan PlanOf(const ModelSpec& model, int64_t micro_batch_count, bool recomputes) {
  Plan plan;
  plan.global_batch_size = kBatch;
  plan.micro_batch_count = micro_batch_count;
  plan.device_count = 1;
  Strategy transformers;
  if (recomputes) transformers.recompute_level = RecomputeLevel::kFull;
  const int last = model.layer_count() - 1;
  plan.stages = {
      {.first_rank = 0,
       .rank_count = 1,
       .layer_runs = {{.first_layer_index = 0, .layer_count = 1},
                      {.first_layer_index = 1, .layer_count = last - 1, .strategy = transformers},
                      {.first_layer_index = last, .layer_count = 1}}}};
  return plan;
}

double TeraflopsOf(double flops, absl::Duration time) {
  return flops / absl::ToDoubleSeconds(time) / 1e12;
}

// The median of large products.
absl::StatusOr<double> MatrixPeak(Device& device, const Size& size) {
  PARPLAN_ASSIGN_OR_RETURN(const auto kernels, device.MakeKernels(size.type));
  ArrayPool pool(device.memory());
  const int64_t n = size.product;
  const Bytes bytes = Bytes::Of(n * n * ElementSize(size.type));
  PARPLAN_ASSIGN_OR_RETURN(const Array a, pool.Take(ArrayUse::kTransient, bytes));
  PARPLAN_ASSIGN_OR_RETURN(const Array b, pool.Take(ArrayUse::kTransient, bytes));
  PARPLAN_ASSIGN_OR_RETURN(const Array c, pool.Take(ArrayUse::kTransient, bytes));
  // A GPU is faster at zeros than at numbers.
  for (const Array* const array : {&a, &b}) {
    kernels->FillNormal({.column_count = n, .part_row_count = n, .part_column_count = n},
                        array->data());
  }
  const std::unique_ptr<Stopwatch> stopwatch = device.MakeStopwatch();
  // Clocks fall under load, in about a second.
  std::vector<absl::Duration> times;
  const absl::Duration warm = SteadyNow() + absl::Seconds(size.type == ElementType::kBfloat16);
  while (times.size() < 21) {
    stopwatch->Start();
    kernels->Multiply({.transposes_b = true,
                       .m = n,
                       .n = n,
                       .k = n,
                       .a = a.data(),
                       .b = b.data(),
                       .c = c.data()});
    stopwatch->Stop();
    PARPLAN_ASSIGN_OR_RETURN(const absl::Duration elapsed, stopwatch->Elapsed());
    if (SteadyNow() >= warm) times.push_back(elapsed);
  }
  const TimeSpread spread = SpreadOf(times);
  const double peak = TeraflopsOf(2.0 * std::pow(static_cast<double>(n), 3), spread.median);
  std::printf("matrix peak: %lld cubed in %.3f ms (p10 %.3f, p90 %.3f), %.2f TFLOP/s\n",
              static_cast<long long>(n), absl::ToDoubleMilliseconds(spread.median),
              absl::ToDoubleMilliseconds(spread.p10), absl::ToDoubleMilliseconds(spread.p90), peak);
  return peak;
}

absl::StatusOr<v1::Profile> MeasureProfile(const ModelSpec& model, const DeviceFacts& facts,
                                           absl::Duration time_budget, RankContext& job,
                                           Device& device) {
  ProbeRequest request;
  request.rank_count = 1;
  request.models = {model};
  request.micro_batch_sizes = {1, 2, 4, 8};
  request.time_budget = time_budget;
  PARPLAN_ASSIGN_OR_RETURN(const agent::v1::ProbePlan plan, WholeProbe(request));
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, RunProbe(plan, job, facts, device));
  profile.mutable_provenance()->set_agent("device_report");
  profile.set_devices_per_node(1);
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile));
  return profile;
}

void PrintLayerShares(const v1::Profile& profile, const ModelSpec& model, double peak) {
  const auto seconds = [](const google::protobuf::Duration& duration) {
    return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
  };
  const LayerDefinition& decoder = model.layer_definitions()[1];
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    const double time = seconds(timing.forward_duration()) + seconds(timing.backward_duration());
    const auto definition =
        std::find_if(profile.layer_definitions().begin(), profile.layer_definitions().end(),
                     [&](const auto& each) {
                       return each.layer_definition_id() == timing.layer_definition_id();
                     });
    if (definition == profile.layer_definitions().end() ||
        definition->kind() != v1::LAYER_KIND_DECODER) {
      continue;
    }
    // The backward pass is two products for each of the forward pass.
    const double flops =
        3.0 * timing.micro_batch_size() * ForwardFlopsPerSample(decoder, decoder.sequence_length);
    const double rate = flops / time / 1e12;
    std::printf(
        "layer step, %d samples: forward %.3f ms, backward %.3f ms, %.2f TFLOP/s, %.1f %% of the "
        "peak\n",
        timing.micro_batch_size(), 1e3 * seconds(timing.forward_duration()),
        1e3 * seconds(timing.backward_duration()), rate, 100.0 * rate / peak);
  }
}

// Measures the layers of kGpuLayers, and writes them to `file` unless it is null.
absl::Status MeasureLayers(RankContext& job, Device& device, double peak, std::FILE* file) {
  PARPLAN_ASSIGN_OR_RETURN(const auto kernels, device.MakeKernels(ElementType::kBfloat16));
  for (const LayerCase& each : kGpuLayers) {
    PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelOf(each));
    LayerProbeSetting setting;
    setting.kernels = kernels.get();
    setting.memory = &device.memory();
    setting.make_group = [&](const std::string& purpose, const std::vector<int>& ranks) {
      return device.MakeGroup(job, purpose, ranks);
    };
    setting.time_limit = absl::Seconds(5);
    // Clocks fall under load.
    setting.warm_up_count = 20;
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<LayerTimes> times,
                             ProbeLayers(model, {.samples = each.samples}, setting));
    const auto decoder = std::find_if(times.begin(), times.end(), [](const LayerTimes& layer) {
      return layer.definition_index == 1;
    });
    const double forward = absl::ToDoubleMilliseconds(decoder->forward.median);
    const double backward = absl::ToDoubleMilliseconds(decoder->backward.median);
    const LayerDefinition& layer = model.layer_definitions()[1];
    const double rate = 3.0 * each.samples * ForwardFlopsPerSample(layer, layer.sequence_length) /
                        (forward + backward) / 1e9;
    std::printf("layer of %s, %d tokens x %d: forward %.3f ms, backward %.3f ms, %.1f %% of peak\n",
                each.name, each.sequence, each.samples, forward, backward, 100.0 * rate / peak);
    if (file == nullptr) continue;
    std::fprintf(file,
                 "{\"layer\": \"%s\", \"sequence\": %d, \"samples\": %d, \"forward_ms\": %.4f, "
                 "\"backward_ms\": %.4f}\n",
                 each.name, each.sequence, each.samples, forward, backward);
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanningProblem> MakeProblem(const ModelSpec& model, const DeviceFacts& facts,
                                            const v1::Profile& measured,
                                            const RuntimeTraits& runtime) {
  const v1::Profile* const profiles[] = {&measured};
  PARPLAN_ASSIGN_OR_RETURN(
      ProfileSnapshot profile,
      SnapshotOfNodes(profiles, measured.device_kind(), 1, measured.runtime_id()));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology,
                           Topology::Create("here",
                                            {{.node_group_id = "here",
                                              .device_kind = measured.device_kind(),
                                              .node_count = 1,
                                              .devices_per_node = 1,
                                              .device_memory = facts.memory}},
                                            {{"node", 1}}));
  PlanningRules rules;
  rules.runtime = runtime;
  // Items missing from the profile are listed and estimated from the layers' operations.
  rules.allow_estimates = true;
  return PlanningProblem::Create(std::make_shared<const ModelSpec>(model),
                                 std::make_shared<const Topology>(std::move(topology)),
                                 {{{std::make_shared<const ProfileSnapshot>(std::move(profile))}}},
                                 kBatch, std::move(rules));
}

struct Flags {
  std::string backend;
  std::string plugin;
  std::string profile;
  std::string steps;
  // 0: as many as the model has.
  int layers = 0;
  bool only_looks = false;
  bool only_steps = false;
};

struct Measured {
  TimeSpread step;
  // The peak of arrays, and what the driver held then, with context and libraries; the first alone
  // where the device has no allocator of its own.
  Bytes arrays;
  Bytes held;
  // Of `held`: the context and the libraries.
  Bytes context;
};

absl::StatusOr<Measured> Run(const Plan& plan, const ModelSpec& model, ElementType type,
                             RankContext& job, Device& device) {
  PARPLAN_RETURN_IF_ERROR(device.ResetMemoryPeak());
  PARPLAN_ASSIGN_OR_RETURN(const auto kernels, device.MakeKernels(type));
  ArrayPool pool(device.memory());
  const std::unique_ptr<TokenSource> tokens =
      MakeSyntheticTokens(model.layer(0).vocabulary_size, 7);
  PARPLAN_ASSIGN_OR_RETURN(const RankProgram program, RankProgram::Create(plan, model, 0));
  PARPLAN_ASSIGN_OR_RETURN(const auto trainer,
                           RankTrainer::Create(program, model,
                                               {.kernels = kernels.get(),
                                                .pool = &pool,
                                                .tokens = tokens.get(),
                                                .make_group = [&](const GroupSpec& group) {
                                                  return device.MakeGroup(job, group.purpose,
                                                                          group.ranks);
                                                }}));
  std::vector<absl::Duration> samples;
  absl::Duration last;
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
    const absl::Duration now = SteadyNow();
    if (step >= kWarmUp) samples.push_back(now - last);
    last = now;
  }
  PARPLAN_ASSIGN_OR_RETURN(const DeviceMemoryUse use, device.MemoryUse());
  const Bytes arrays = pool.at_peak().Total();
  return Measured{.step = SpreadOf(samples),
                  .arrays = arrays,
                  .held = use.arrays_peak > Bytes() ? use.context + use.arrays_peak : arrays,
                  .context = use.context};
}

absl::Status ComparePlans(const ModelSpec& model, const DeviceFacts& facts,
                          const v1::Profile& profile, ElementType type, RankContext& job,
                          Device& device) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           MakeProblem(model, facts, profile, *FindRuntime("parplan-exec")));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  // What `planctl plan --runtime parplan` predicts for this kind of device, to be seen beside it
  // (docs/adr/0031-what-the-review-of-cuda-left.md).
  PARPLAN_ASSIGN_OR_RETURN(
      const PlanningProblem planned,
      MakeProblem(model, facts, profile, TraitsOn(*FindRuntime("parplan"), profile.device_kind())));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel planned_costs, CostModel::Create(planned));
  for (const std::string& item : costs.estimated_items()) {
    std::printf("estimated, not measured: %s\n", item.c_str());
  }
  std::printf("%-28s %12s %12s %8s %14s %14s %8s\n", "plan", "predicted", "measured", "error",
              "predicted", "measured", "error");
  PARPLAN_RETURN_IF_ERROR(device.ResetMemoryPeak());
  PARPLAN_ASSIGN_OR_RETURN(const DeviceMemoryUse before, device.MemoryUse());
  std::printf("context before the first plan: %.1f MiB\n", before.context.as_double() / (1 << 20));
  double worst_time = 0.0;
  double worst_memory = 0.0;
  double worst_planned_time = 0.0;
  double worst_planned_memory = 0.0;
  int count = 0;
  for (const bool recomputes : {false, true}) {
    for (const int64_t micro_batches : {1, 2, 4, 8}) {
      const Plan plan = PlanOf(model, micro_batches, recomputes);
      const Prediction prediction = PredictPlan(problem, costs, plan);
      PARPLAN_ASSIGN_OR_RETURN(const Measured measured, Run(plan, model, type, job, device));
      const Prediction planner = PredictPlan(planned, planned_costs, plan);
      const MemoryItems& items = prediction.stages.front().memory;
      const bool has_allocator = measured.held != measured.arrays;
      // A pool of the host counts arrays; drivers and allocators are not in it.
      const auto predicted_of = [&](const MemoryItems& all) {
        const Bytes beside = all[MemoryItemKind::kContext] + all[MemoryItemKind::kFragmentation];
        return (has_allocator ? all.Total() : all.Total() - beside).as_double();
      };
      const double predicted_bytes = predicted_of(items);
      const double time_error =
          prediction.step.value() / absl::ToDoubleSeconds(measured.step.median) - 1.0;
      const double memory_error = predicted_bytes / measured.held.as_double() - 1.0;
      worst_time = std::max(worst_time, std::abs(time_error));
      worst_memory = std::max(worst_memory, std::abs(memory_error));
      worst_planned_time = std::max(
          worst_planned_time,
          std::abs(planner.step.value() / absl::ToDoubleSeconds(measured.step.median) - 1.0));
      worst_planned_memory = std::max(
          worst_planned_memory,
          std::abs(predicted_of(planner.stages.front().memory) / measured.held.as_double() - 1.0));
      ++count;
      std::printf(
          "%-28s %9.2f ms %9.2f ms %+6.1f %% %10.1f MiB %10.1f MiB %+6.1f %% (arrays %.1f MiB; "
          "context %.1f MiB, predicted %.1f MiB)\n",
          absl::StrCat(micro_batches, " micro-batches", recomputes ? ", recompute" : "").c_str(),
          prediction.step.milliseconds(), absl::ToDoubleMilliseconds(measured.step.median),
          100.0 * time_error, predicted_bytes / (1 << 20), measured.held.as_double() / (1 << 20),
          100.0 * memory_error, measured.arrays.as_double() / (1 << 20),
          measured.context.as_double() / (1 << 20),
          items[MemoryItemKind::kContext].as_double() / (1 << 20));
      std::fflush(stdout);
    }
  }
  std::printf("%d plans: worst error of step time %.1f %%, of peak memory %.1f %%\n", count,
              100.0 * worst_time, 100.0 * worst_memory);
  std::printf("as planctl predicts runtime parplan here: %.1f %% of step time, %.1f %% of memory\n",
              100.0 * worst_planned_time, 100.0 * worst_planned_memory);
  std::printf(
      "{\"plans\": %d, \"worst_time_error\": %.4f, \"time_goal\": %.2f, "
      "\"worst_memory_error\": %.4f, \"memory_goal\": %.2f, "
      "\"worst_time_error_of_planctl\": %.4f, \"worst_memory_error_of_planctl\": %.4f}\n",
      count, worst_time, kTimeGoal, worst_memory, kMemoryGoal, worst_planned_time,
      worst_planned_memory);
  if (type == ElementType::kBfloat16 && (worst_time > kTimeGoal || worst_memory > kMemoryGoal)) {
    return absl::OutOfRangeError(absl::StrFormat(
        "a prediction is further off than the goals, %.0f %% of time and %.0f %% of "
        "memory",
        100.0 * kTimeGoal, 100.0 * kMemoryGoal));
  }
  return absl::OkStatus();
}

absl::Status Report(const Flags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const auto backend,
                           LoadBackend(flags.backend, {.plugin = flags.plugin}));
  Size size = flags.backend == "cuda" ? kGpu : kCore;
  if (flags.layers > 0) size.layers = flags.layers;
  PARPLAN_ASSIGN_OR_RETURN(const DeviceFacts facts, backend->Describe(0));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, backend->Open(0));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, MakeModel(size));
  std::printf("%s, %.1f GiB; GPT of %lld parameters, %d layers, hidden %d, %d tokens a sample\n",
              facts.kind.c_str(), static_cast<double>(facts.memory.count()) / (1 << 30),
              static_cast<long long>(model.parameter_count()), size.layers, size.hidden,
              size.sequence);
  std::printf("devices: %d\n", backend->device_count());
  if (flags.only_looks) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const double peak, MatrixPeak(*device, size));
  PARPLAN_ASSIGN_OR_RETURN(const auto server,
                           RendezvousServer::Start({.token = "report", .world_size = 1}));
  PARPLAN_ASSIGN_OR_RETURN(
      const auto fabric,
      JobFabric::Join({.rendezvous = server->address(), .token = "report", .world_size = 1}));
  if (flags.backend == "cuda") {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
        flags.steps.empty() ? nullptr : std::fopen(flags.steps.c_str(), "w"), std::fclose);
    if (!flags.steps.empty() && file == nullptr) {
      return absl::InternalError(absl::StrCat("cannot write ", flags.steps));
    }
    PARPLAN_RETURN_IF_ERROR(MeasureLayers(*fabric, *device, peak, file.get()));
  }
  if (flags.only_steps) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const v1::Profile profile,
                           MeasureProfile(model, facts, size.time_budget, *fabric, *device));
  if (!flags.profile.empty()) {
    std::string text;
    if (!google::protobuf::util::MessageToJsonString(profile, &text, {}).ok() ||
        !(std::ofstream(flags.profile) << text << "\n")) {
      return absl::InternalError(absl::StrCat("cannot write ", flags.profile));
    }
  }
  PrintLayerShares(profile, model, peak);
  const absl::Status compared = ComparePlans(model, facts, profile, size.type, *fabric, *device);
  for (const std::string& note : device->Notes()) std::printf("%s\n", note.c_str());
  return compared;
}

int Main(const std::vector<std::string>& arguments) {
  // Lines appear at once where the output is a file too.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Flags flags;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const bool has_value = k + 1 < arguments.size();
    if (arguments[k] == "--look") {
      flags.only_looks = true;
    } else if (arguments[k] == "--steps-only") {
      flags.only_steps = true;
    } else if (arguments[k] == "--plugin" && has_value) {
      flags.plugin = arguments[++k];
    } else if (arguments[k] == "--profile" && has_value) {
      flags.profile = arguments[++k];
    } else if (arguments[k] == "--steps" && has_value) {
      flags.steps = arguments[++k];
    } else if (arguments[k] == "--layers" && has_value &&
               absl::SimpleAtoi(arguments[k + 1], &flags.layers)) {
      ++k;
    } else if (flags.backend.empty() && arguments[k].front() != '-') {
      flags.backend = arguments[k];
    } else {
      flags.backend.clear();
      break;
    }
  }
  if (flags.backend.empty()) {
    std::fprintf(stderr,
                 "usage: device_report cuda|cpu [--plugin FILE] [--profile FILE] "
                 "[--steps FILE] [--layers N] [--steps-only] [--look]\n");
    return 2;
  }
  const absl::Status status = Report(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_report: %s\n", std::string(status.message()).c_str());
  return GetBackendFault(status).has_value() ? 77 : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  return parplan::Main(std::vector<std::string>(argv + 1, argv + argc));
}
