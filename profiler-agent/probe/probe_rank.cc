#include "profiler-agent/probe/probe_rank.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "clients/device/backend/context_memory.h"
#include "clients/device/comm/steady_clock.h"
#include "clients/executor/layer_probe/layer_probe.h"
#include "clients/executor/layer_probe/memory_probe.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "profiler-agent/probe/collective_probe.h"
#include "profiler-agent/probe/core_sharing.h"
#include "profiler-agent/probe/device_probe.h"
#include "profiler-agent/probe/probe_plan.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

constexpr int kOverlapRepetitionCount = 11;
constexpr int kCopyRepetitionCount = 11;
// No time in a profile is 0, however little a layer computes.
constexpr absl::Duration kShortestTime = absl::Nanoseconds(1);

google::protobuf::Duration TimeToProto(absl::Duration time) {
  return DurationToProto(std::max(time, kShortestTime));
}

absl::StatusOr<ElementType> ElementTypeOf(const std::vector<ModelSpec>& models) {
  if (models.empty() || models.front().precision() == Precision::kFp32) {
    return ElementType::kFloat32;
  }
  if (models.front().precision() == Precision::kBf16) return ElementType::kBfloat16;
  return FieldError(Reason::kSpecInvalid, "model.precision",
                    "the executor trains in fp32 and bf16, not in fp16");
}

class Probe {
 public:
  Probe(const agent::v1::ProbePlan& plan, Job& job, Device& device, std::vector<ModelSpec> models)
      : plan_(plan), job_(job), device_(device), models_(std::move(models)) {}

  absl::Status Prepare() {
    if (job_.world_size() != plan_.rank_count()) {
      return FieldError(
          Reason::kSpecInvalid, "rank_count",
          absl::StrCat("is ", plan_.rank_count(), ", the job has ", job_.world_size(), " ranks"));
    }
    PARPLAN_ASSIGN_OR_RETURN(time_budget_, DurationFromProto(plan_.time_budget(), "time_budget"));
    PARPLAN_ASSIGN_OR_RETURN(
        collective_time_limit_,
        DurationFromProto(plan_.collective_time_limit(), "collective_time_limit"));
    PARPLAN_ASSIGN_OR_RETURN(layer_time_limit_,
                             DurationFromProto(plan_.layer_time_limit(), "layer_time_limit"));
    PARPLAN_ASSIGN_OR_RETURN(const ElementType type, ElementTypeOf(models_));
    PARPLAN_ASSIGN_OR_RETURN(kernels_, device_.MakeKernels(type));
    std::vector<int> all(static_cast<size_t>(job_.world_size()));
    std::iota(all.begin(), all.end(), 0);
    PARPLAN_ASSIGN_OR_RETURN(control_, job_.MakeGroup("probe control", all));
    if (job_.world_size() > 1) {
      PARPLAN_ASSIGN_OR_RETURN(everyone_, device_.MakeGroup(job_, "probe everyone", all));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Profile> Run() {
    start_ = SteadyNow();
    if (plan_.measures_context_memory()) PARPLAN_RETURN_IF_ERROR(MeasureContext());
    if (plan_.backend() == "cpu") {
      PARPLAN_ASSIGN_OR_RETURN(const std::string sharing, CoreSharingNote(*control_));
      if (!sharing.empty()) Note(sharing);
    }
    PARPLAN_RETURN_IF_ERROR(MeasureOverlapTimes());
    PARPLAN_RETURN_IF_ERROR(MeasureCollectives());
    PARPLAN_RETURN_IF_ERROR(MeasureLayers());
    if (plan_.measures_copies()) PARPLAN_RETURN_IF_ERROR(MeasureCopySpeeds());
    *profile_.mutable_provenance()->mutable_measure_time() = TimestampToProto(absl::Now());
    return profile_;
  }

 private:
  void Note(const std::string& note) { profile_.mutable_provenance()->add_notes(note); }

  // Whether the budget is used up at any rank.
  absl::StatusOr<bool> IsLate() {
    float late = SteadyNow() - start_ > time_budget_ ? 1.0F : 0.0F;
    PARPLAN_RETURN_IF_ERROR(control_->AllReduce(ElementType::kFloat32, &late, 1, Reduction::kMax));
    return late > 0.0F;
  }

  absl::Status MeasureContext() {
    // A GPU's is not asked for.
    if (plan_.backend() != "cpu") return absl::OkStatus();
    double bytes = CpuContextMemory().as_double();
    PARPLAN_RETURN_IF_ERROR(control_->AllReduce(ElementType::kFloat64, &bytes, 1, Reduction::kMax));
    profile_.set_context_memory_bytes(static_cast<int64_t>(bytes));
    return absl::OkStatus();
  }

  absl::Status MeasureOverlapTimes() {
    if (!plan_.measures_overlap() || everyone_ == nullptr) return absl::OkStatus();
    PARPLAN_ASSIGN_OR_RETURN(
        const OverlapTimes times,
        MeasureOverlap(device_, *kernels_, *everyone_, *control_, kOverlapRepetitionCount));
    profile_.set_overlap_slowdown(times.slowdown());
    Note(
        absl::StrFormat("Beside an all-reduce of 8 MiB, matrix products took %.2f times as long "
                        "as alone, and it %.2f times as long beside them.",
                        times.compute_slowdown(), times.communication_slowdown()));
    return absl::OkStatus();
  }

  absl::Status MeasureCollectives() {
    CollectiveProbeOptions options;
    options.time_limit = collective_time_limit_;
    if (plan_.precision() > 0) options.precision = plan_.precision();
    CollectiveProbe probe(job_, device_, *kernels_, *control_, options);
    for (int i = 0; i < plan_.collectives_size(); ++i) {
      const agent::v1::CollectiveKey& key = plan_.collectives(i);
      PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate());
      if (is_late) {
        Note(absl::StrCat(plan_.collectives_size() - i, " of ", plan_.collectives_size(),
                          " times of collectives were left out: the time budget was used up."));
        return absl::OkStatus();
      }
      PARPLAN_ASSIGN_OR_RETURN(
          const Collective collective,
          EnumFromProto<Collective>(key.collective(),
                                    absl::StrCat("collectives[", i, "].collective"),
                                    Reason::kSpecInvalid));
      PARPLAN_ASSIGN_OR_RETURN(const TimeSpread spread,
                               probe.Measure({collective, key.participant_count(),
                                              key.rank_stride(), key.message_size_bytes()}));
      v1::CollectiveTiming& timing = *profile_.add_collective_timings();
      timing.set_collective(key.collective());
      timing.set_participant_count(key.participant_count());
      timing.set_rank_stride(key.rank_stride());
      timing.set_message_size_bytes(key.message_size_bytes());
      *timing.mutable_median_duration() = TimeToProto(spread.median);
      *timing.mutable_p90_duration() = TimeToProto(std::max(spread.p90, spread.median));
      timing.set_sample_count(spread.sample_count);
      timing.set_origin(v1::ORIGIN_MEASURED);
    }
    return absl::OkStatus();
  }

  // The id of a layer in the profile, where it is added when it is new.
  std::string IdOf(const LayerDefinition& layer, Precision precision) {
    const std::string digest = LayerDigest(layer, precision);
    const auto found = ids_.find(digest);
    if (found != ids_.end()) return found->second;
    std::string id = layer.layer_definition_id;
    while (known_ids_.contains(id)) absl::StrAppend(&id, "_");
    known_ids_.insert(id);
    ids_[digest] = id;
    v1::LayerDefinition& message = *profile_.add_layer_definitions();
    message = LayerDefinitionToProto(layer);
    message.set_layer_definition_id(id);
    return id;
  }

  void AddLayer(const ModelSpec& model, const LayerTimes& times) {
    const LayerDefinition& layer = model.layer_definitions()[times.definition_index];
    const std::string id = IdOf(layer, model.precision());
    // Models may have layers in common.
    const auto key = std::make_tuple(id, times.shape.tensor_parallel_degree, times.shape.samples,
                                     times.sequence_length);
    if (!timed_.insert(key).second) return;
    v1::LayerTiming& timing = *profile_.add_layer_timings();
    timing.set_layer_definition_id(id);
    timing.set_tensor_parallel_degree(times.shape.tensor_parallel_degree);
    timing.set_micro_batch_size(static_cast<int>(times.shape.samples));
    timing.set_sequence_length(times.sequence_length);
    *timing.mutable_forward_duration() = TimeToProto(times.forward.median);
    *timing.mutable_backward_duration() = TimeToProto(times.backward.median);
    *timing.mutable_forward_duration_p90() =
        TimeToProto(std::max(times.forward.p90, times.forward.median));
    timing.set_sample_count(times.forward.sample_count);
    timing.set_origin(v1::ORIGIN_MEASURED);
    AddOptimizer(model.optimizer(), times);
  }

  // Layers of several sizes have as many parameters.
  void AddOptimizer(Optimizer optimizer, const LayerTimes& times) {
    if (times.optimizer_step.median <= absl::ZeroDuration() || times.parameter_count < 1) return;
    const v1::Optimizer wire = OptimizerToProto(optimizer);
    if (!stepped_.insert({static_cast<int>(wire), times.parameter_count}).second) return;
    v1::OptimizerTiming& timing = *profile_.add_optimizer_timings();
    timing.set_optimizer(wire);
    timing.set_parameter_count(times.parameter_count);
    *timing.mutable_median_duration() = TimeToProto(times.optimizer_step.median);
    *timing.mutable_p90_duration() =
        TimeToProto(std::max(times.optimizer_step.p90, times.optimizer_step.median));
    timing.set_sample_count(times.optimizer_step.sample_count);
    timing.set_origin(v1::ORIGIN_MEASURED);
  }

  void AddSizes(const ModelSpec& model, const LayerSizes& sizes) {
    const LayerDefinition& layer = model.layer_definitions()[sizes.definition_index];
    const std::string id = IdOf(layer, model.precision());
    const bool shares_tokens =
        sizes.shape.sequence_parallel && sizes.shape.tensor_parallel_degree > 1;
    const auto key = std::make_tuple(id, sizes.shape.tensor_parallel_degree, shares_tokens,
                                     sizes.sequence_length);
    if (!sized_.insert(key).second) return;
    v1::LayerMemory& memory = *profile_.add_layer_memories();
    memory.set_layer_definition_id(id);
    memory.set_tensor_parallel_degree(sizes.shape.tensor_parallel_degree);
    memory.set_sequence_parallel(shares_tokens);
    memory.set_sequence_length(sizes.sequence_length);
    memory.set_parameter_count(sizes.parameter_count);
    memory.set_activation_bytes_per_sample(sizes.activation_per_sample.count());
    memory.set_checkpoint_bytes_per_sample(sizes.checkpoint_per_sample.count());
    memory.set_origin(v1::ORIGIN_MEASURED);
  }

  // Memory grows with samples as it does with one, so each degree is measured once.
  absl::Status MeasureSizes(int model_index, LayerProbeShape shape,
                            const LayerProbeSetting& setting) {
    if (!measured_sizes_.insert({model_index, shape.tensor_parallel_degree}).second) {
      return absl::OkStatus();
    }
    PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate());
    if (is_late) {
      Note(absl::StrCat("Memory of ", models_[model_index].model_id(),
                        " at tensor-parallel degree ", shape.tensor_parallel_degree,
                        " was left out: the time budget was used up."));
      return absl::OkStatus();
    }
    shape.samples = 1;
    for (const bool shares_tokens : {false, true}) {
      if (shares_tokens && shape.tensor_parallel_degree == 1) continue;
      shape.sequence_parallel = shares_tokens;
      const auto sizes = ProbeMemory(models_[model_index], shape, setting);
      if (shares_tokens && absl::IsInvalidArgument(sizes.status())) {
        Note(absl::StrCat("Memory of ", models_[model_index].model_id(),
                          " with its tokens shared by ", shape.tensor_parallel_degree,
                          " was left out: ", std::string(sizes.status().message()), "."));
        continue;
      }
      if (!sizes.ok()) return sizes.status();
      for (const LayerSizes& layer : *sizes) AddSizes(models_[model_index], layer);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureLayers() {
    LayerProbeSetting setting;
    setting.rank = job_.rank();
    setting.world_size = job_.world_size();
    setting.kernels = kernels_.get();
    setting.memory = &device_.memory();
    setting.make_group = [this](const std::string& purpose, const std::vector<int>& ranks) {
      return device_.MakeGroup(job_, purpose, ranks);
    };
    setting.control = control_.get();
    setting.time_limit = layer_time_limit_;
    if (plan_.precision() > 0) setting.precision = plan_.precision();
    for (int i = 0; i < plan_.layers_size(); ++i) {
      const agent::v1::LayerKey& key = plan_.layers(i);
      if (key.model_index() < 0 || key.model_index() >= static_cast<int>(models_.size())) {
        return FieldError(Reason::kSpecInvalid, absl::StrCat("layers[", i, "].model_index"),
                          "there is no such model");
      }
      PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate());
      if (is_late) {
        Note(absl::StrCat(plan_.layers_size() - i, " of ", plan_.layers_size(),
                          " sizes of layers were left out: the time budget was used up."));
        return absl::OkStatus();
      }
      const ModelSpec& model = models_[key.model_index()];
      profile_.set_precision(PrecisionToProto(model.precision()));
      LayerProbeShape shape;
      shape.tensor_parallel_degree = key.tensor_parallel_degree();
      shape.samples = key.micro_batch_size();
      if (key.memory_only()) {
        PARPLAN_RETURN_IF_ERROR(MeasureSizes(key.model_index(), shape, setting));
        continue;
      }
      const absl::StatusOr<std::vector<LayerTimes>> times = ProbeLayers(model, shape, setting);
      if (absl::IsInvalidArgument(times.status())) {
        Note(absl::StrCat("Layers of ", model.model_id(), " at tensor-parallel degree ",
                          shape.tensor_parallel_degree, " and micro-batches of ", shape.samples,
                          " were left out: ", std::string(times.status().message()), "."));
        continue;
      }
      if (!times.ok()) return times.status();
      for (const LayerTimes& layer : *times) AddLayer(model, layer);
      PARPLAN_RETURN_IF_ERROR(MeasureSizes(key.model_index(), shape, setting));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureCopySpeeds() {
    PARPLAN_ASSIGN_OR_RETURN(const CopySpeeds speeds,
                             MeasureCopies(device_, *kernels_, kCopyRepetitionCount));
    Note(absl::StrFormat(
        "Copies of 64 MiB ran at %.2f GB/s within the device, %.2f GB/s to it, "
        "%.2f GB/s from it, with all ranks at it.",
        speeds.within_device / 1e9, speeds.to_device / 1e9, speeds.from_device / 1e9));
    return absl::OkStatus();
  }

  const agent::v1::ProbePlan& plan_;
  Job& job_;
  Device& device_;
  const std::vector<ModelSpec> models_;
  std::unique_ptr<LayerKernels> kernels_;
  std::unique_ptr<Communicator> control_;
  // Null where there is one rank.
  std::unique_ptr<Communicator> everyone_;
  absl::Duration time_budget_;
  absl::Duration collective_time_limit_;
  absl::Duration layer_time_limit_;
  absl::Duration start_;
  v1::Profile profile_;
  // By digest, and all of them.
  std::map<std::string, std::string> ids_;
  std::set<std::string> known_ids_;
  std::set<std::tuple<std::string, int, int64_t, int>> timed_;
  // Optimizers and parameter counts in the profile.
  std::set<std::pair<int, int64_t>> stepped_;
  std::set<std::tuple<std::string, int, bool, int>> sized_;
  // Model and tensor-parallel degree.
  std::set<std::pair<int, int>> measured_sizes_;
};

}  // namespace

absl::StatusOr<v1::Profile> RunProbe(const agent::v1::ProbePlan& plan, Job& job,
                                     const DeviceFacts& description, Device& device) {
  std::vector<ModelSpec> models;
  for (int i = 0; i < plan.models_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(ModelSpec model,
                             ModelFromProto(plan.models(i), absl::StrCat("models[", i, "]")));
    models.push_back(std::move(model));
  }
  Probe probe(plan, job, device, std::move(models));
  PARPLAN_RETURN_IF_ERROR(probe.Prepare());
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, probe.Run());
  profile.set_device_kind(description.kind);
  profile.set_devices_per_node(DevicesPerNode(plan));
  for (const auto& [library, version] : description.libraries) {
    v1::LibraryVersion& entry = *profile.mutable_provenance()->add_library_versions();
    entry.set_library(library);
    entry.set_version(version);
  }
  return profile;
}

}  // namespace parplan
