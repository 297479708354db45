#include "profiler-agent/probe/probe_rank.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/null_communicator.h"
#include "executor/layer_probe/layer_probe.h"
#include "executor/layer_probe/memory_probe.h"
#include "profiler-agent/probe/collective_probe.h"
#include "profiler-agent/probe/communicator_probe.h"
#include "profiler-agent/probe/core_sharing.h"
#include "profiler-agent/probe/device_probe.h"
#include "profiler-agent/probe/probe_plan.h"
#include "profiler-agent/probe/profile_entries.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

// Repetitions of which the median counts; odd, so that it is one of them. Not measured.
constexpr int kOverlapRepetitionCount = 11;
// How long a GPU multiplies before it is measured, and the most of the budget that may take. Clocks
// settle within seconds. Not measured.
constexpr absl::Duration kLoadTime = absl::Seconds(3);
constexpr double kLoadShare = 0.04;
constexpr int kCopyRepetitionCount = 11;
// Groups of all ranks, to measure the memory of one. The first also loads kernels of the library,
// which a job has once, so the mean of two is too large rather than too small for a job of more. A
// job of several ranks has at least two: all ranks, and those of an axis.
constexpr int kMeasuredGroupCount = 2;
// Share of the time budget that is spent on measuring. The rest covers the start of ranks and
// measurements that take longer than expected. Not measured.
constexpr double kMeasuringShare = 0.95;

absl::StatusOr<ElementType> ElementTypeOf(const std::vector<ModelSpec>& models) {
  if (models.empty() || models.front().precision() == Precision::kFp32) {
    return ElementType::kFloat32;
  }
  if (models.front().precision() == Precision::kBf16) return ElementType::kBfloat16;
  return FieldError(Reason::kSpecInvalid, "model.precision",
                    absl::StrCat("the executor trains in fp32 and bf16, not in ",
                                 TraitsOf(models.front().precision()).name));
}

class Probe {
 public:
  Probe(const agent::v1::ProbePlan& plan, RankContext& job, Device& device,
        std::vector<ModelSpec> models)
      : plan_(plan), job_(job), device_(device), models_(std::move(models)) {}

  absl::Status Prepare() {
    if (job_.world_size() != plan_.rank_count()) {
      return FieldError(
          Reason::kSpecInvalid, "rank_count",
          absl::StrCat("is ", plan_.rank_count(), ", the job has ", job_.world_size(), " ranks"));
    }
    PARPLAN_ASSIGN_OR_RETURN(const absl::Duration budget,
                             DurationFromProto(plan_.time_budget(), "time_budget"));
    time_budget_ = budget * kMeasuringShare;
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
    if (job_.world_size() == 1) return absl::OkStatus();
    // Before other communicators come and go. On processors groups are part of the context.
    const bool measures = plan_.measures_context_memory() && plan_.backend() != "cpu";
    PARPLAN_ASSIGN_OR_RETURN(communicators_,
                             MeasureCommunicators(job_, device_, *kernels_, *control_,
                                                  measures ? kMeasuredGroupCount : 1));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Profile> Run() {
    start_ = SteadyNow();
    const bool is_cpu = plan_.backend() == "cpu";
    if (plan_.measures_context_memory() && is_cpu) PARPLAN_RETURN_IF_ERROR(MeasureContext());
    if (is_cpu) {
      PARPLAN_ASSIGN_OR_RETURN(const std::string sharing, CoreSharingNote(*control_));
      if (!sharing.empty()) Note(sharing);
    }
    if (!is_cpu) PARPLAN_RETURN_IF_ERROR(Load());
    PARPLAN_RETURN_IF_ERROR(MeasureOverlapTimes());
    PARPLAN_RETURN_IF_ERROR(MeasureCollectives());
    // Collectives of small messages leave a GPU idle.
    if (!is_cpu && !plan_.layers().empty()) PARPLAN_RETURN_IF_ERROR(Load());
    PARPLAN_RETURN_IF_ERROR(MeasureLayers());
    // A GPU's libraries take memory, and kernels their workspaces, when they are first used.
    if (plan_.measures_context_memory() && !is_cpu) PARPLAN_RETURN_IF_ERROR(MeasureContext());
    for (const std::string& note : device_.Notes()) Note(note);
    if (plan_.measures_copies()) PARPLAN_RETURN_IF_ERROR(MeasureCopySpeeds());
    *profile_.mutable_provenance()->mutable_measure_time() = TimestampToProto(absl::Now());
    return profile_;
  }

 private:
  void Note(const std::string& note) { profile_.mutable_provenance()->add_notes(note); }

  // Returns whether on any rank work of this expected duration would end after `budget`.
  absl::StatusOr<bool> IsLate(absl::Duration expected, absl::Duration budget) {
    float late = SteadyNow() - start_ + expected > budget ? 1.0F : 0.0F;
    PARPLAN_RETURN_IF_ERROR(control_->AllReduce(ElementType::kFloat32, &late, 1, Reduction::kMax));
    return late > 0.0F;
  }

  absl::Status MeasureContext() {
    // The kernels of the device are loaded, and the groups of all measurements but those of
    // `communicators_` have ended.
    PARPLAN_ASSIGN_OR_RETURN(const DeviceMemoryUse use, device_.MemoryUse());
    const Bytes context =
        communicators_.each.has_value()
            ? std::max(use.context - communicators_.all, communicators_.context_before)
            : use.context;
    double bytes = context.as_double();
    PARPLAN_RETURN_IF_ERROR(control_->AllReduce(ElementType::kFloat64, &bytes, 1, Reduction::kMax));
    profile_.set_context_memory_bytes(static_cast<int64_t>(bytes));
    if (!communicators_.each.has_value()) return absl::OkStatus();
    profile_.set_communicator_memory_bytes(communicators_.each->count());
    Note(absl::StrCat(communicators_.groups.size(), " communicators of all ranks took ",
                      communicators_.all.count(),
                      " bytes with their first all-reduce, no part of context_memory_bytes."));
    return absl::OkStatus();
  }

  // Training runs at the clock that a GPU keeps, so times are taken at it too. A note, not a phase
  // of its own: `ClockLog` says what the clock was.
  absl::Status Load() {
    const absl::Duration time = std::min(kLoadTime, time_budget_ * kLoadShare);
    if (time <= absl::ZeroDuration()) return absl::OkStatus();
    if (load_count_++ == 0) {
      Note(
          absl::StrFormat("Matrix products for %.1f s before collectives, and again before layers, "
                          "brought the GPU to the clock of long work.",
                          absl::ToDoubleSeconds(time)));
    }
    return LoadDevice(device_, *kernels_, OverlapSizesOf(/*is_cpu=*/false).side, time);
  }

  absl::Status MeasureOverlapTimes() {
    if (!plan_.measures_overlap() || communicators_.groups.empty()) return absl::OkStatus();
    const OverlapSizes sizes = OverlapSizesOf(plan_.backend() == "cpu");
    PARPLAN_ASSIGN_OR_RETURN(const OverlapTimes times,
                             MeasureOverlap(device_, *kernels_, *communicators_.groups.front(),
                                            *control_, sizes, kOverlapRepetitionCount));
    profile_.set_overlap_slowdown(times.slowdown());
    Note(absl::StrFormat(
        "Beside an all-reduce of %d MiB, matrix products took %.2f times as long "
        "as alone, and it %.2f times as long beside them.",
        sizes.reduced.count() >> 20, times.compute_slowdown(), times.communication_slowdown()));
    return absl::OkStatus();
  }

  absl::Status MeasureCollectives() {
    CollectiveProbeOptions options;
    options.time_limit = collective_time_limit_;
    options.is_asynchronous = plan_.backend() != "cpu";
    if (plan_.precision() > 0) options.precision = plan_.precision();
    CollectiveProbe probe(job_, device_, *kernels_, *control_, options);
    // The other half is for layers.
    const absl::Duration budget = plan_.layers().empty() ? time_budget_ : time_budget_ / 2;
    absl::Duration longest;
    for (int i = 0; i < plan_.collectives_size(); ++i) {
      const agent::v1::CollectiveKey& key = plan_.collectives(i);
      PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate(longest, budget));
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
      const absl::Duration begin = SteadyNow();
      PARPLAN_ASSIGN_OR_RETURN(const TimeSpread spread,
                               probe.Measure({collective, key.participant_count(),
                                              key.rank_stride(), key.message_size_bytes()}));
      longest = std::max(longest, SteadyNow() - begin);
      entries_.AddCollective(key, spread);
    }
    return absl::OkStatus();
  }

  // Memory is proportional to the number of samples, so each degree is measured once, with one
  // sample.
  absl::Status MeasureSizes(int model_index, LayerProbeShape shape,
                            const LayerProbeSetting& setting) {
    if (!measured_sizes_.insert({model_index, shape.tensor_parallel_degree}).second) {
      return absl::OkStatus();
    }
    PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate(absl::ZeroDuration(), time_budget_));
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
      for (const LayerSizes& layer : *sizes) entries_.AddSizes(models_[model_index], layer);
    }
    return absl::OkStatus();
  }

  // Returns the time limit for one definition among a model's middle layers: an equal share of the
  // remaining budget, with `size_count` sizes still to measure, but at most the plan's limit.
  absl::Duration LayerTimeLimit(const ModelSpec& model, int size_count) const {
    const int64_t middle_count =
        std::max<int64_t>(1, static_cast<int64_t>(model.layer_definitions().size()) - 2);
    const absl::Duration left = time_budget_ - (SteadyNow() - start_);
    return std::clamp(left / (size_count * middle_count), absl::ZeroDuration(), layer_time_limit_);
  }

  absl::Status MeasureLayers() {
    LayerProbeSetting setting;
    setting.rank = job_.rank();
    setting.world_size = job_.world_size();
    setting.kernels = kernels_.get();
    setting.memory = &device_.memory();
    setting.make_group =
        [this](const std::string& purpose,
               const std::vector<int>& ranks) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      if (plan_.backend() == "cpu") return device_.MakeGroup(job_, purpose, ranks);
      // A GPU computes while the host waits, so layers are timed without their collectives.
      const auto own = std::find(ranks.begin(), ranks.end(), job_.rank());
      return std::make_unique<NullCommunicator>(purpose, static_cast<int>(own - ranks.begin()),
                                                static_cast<int>(ranks.size()));
    };
    setting.control = control_.get();
    if (plan_.precision() > 0) setting.precision = plan_.precision();
    absl::Duration longest;
    for (int i = 0; i < plan_.layers_size(); ++i) {
      const agent::v1::LayerKey& key = plan_.layers(i);
      if (key.model_index() < 0 || key.model_index() >= static_cast<int>(models_.size())) {
        return FieldError(Reason::kSpecInvalid, absl::StrCat("layers[", i, "].model_index"),
                          "there is no such model");
      }
      PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate(longest, time_budget_));
      if (is_late) {
        Note(absl::StrCat(plan_.layers_size() - i, " of ", plan_.layers_size(),
                          " sizes of layers were left out: the time budget was used up."));
        return absl::OkStatus();
      }
      const absl::Duration begin = SteadyNow();
      setting.time_limit = LayerTimeLimit(models_[key.model_index()], plan_.layers_size() - i);
      PARPLAN_RETURN_IF_ERROR(MeasureLayer(key, setting));
      longest = std::max(longest, SteadyNow() - begin);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureLayer(const agent::v1::LayerKey& key, const LayerProbeSetting& setting) {
    const ModelSpec& model = models_[key.model_index()];
    profile_.set_precision(PrecisionToProto(model.precision()));
    LayerProbeShape shape;
    shape.tensor_parallel_degree = key.tensor_parallel_degree();
    shape.samples = key.micro_batch_size();
    if (key.memory_only()) return MeasureSizes(key.model_index(), shape, setting);
    const absl::StatusOr<std::vector<LayerTimes>> times = ProbeLayers(model, shape, setting);
    if (absl::IsInvalidArgument(times.status())) {
      Note(absl::StrCat("Layers of ", model.model_id(), " at tensor-parallel degree ",
                        shape.tensor_parallel_degree, " and micro-batches of ", shape.samples,
                        " were left out: ", std::string(times.status().message()), "."));
      return absl::OkStatus();
    }
    if (!times.ok()) return times.status();
    for (const LayerTimes& layer : *times) entries_.AddLayer(model, layer);
    return MeasureSizes(key.model_index(), shape, setting);
  }

  // Copies only go into the notes, so they are skipped if the budget is used up.
  absl::Status MeasureCopySpeeds() {
    PARPLAN_ASSIGN_OR_RETURN(const bool is_late, IsLate(absl::ZeroDuration(), time_budget_));
    if (is_late) {
      Note("Copies were left out: the time budget was used up.");
      return absl::OkStatus();
    }
    PARPLAN_ASSIGN_OR_RETURN(const CopySpeeds speeds,
                             MeasureCopies(device_, *kernels_, kCopyRepetitionCount));
    Note(absl::StrFormat(
        "Copies of 64 MiB ran at %.2f GB/s within the device, %.2f GB/s to it, "
        "%.2f GB/s from it, with all ranks at it.",
        speeds.within_device / 1e9, speeds.to_device / 1e9, speeds.from_device / 1e9));
    return absl::OkStatus();
  }

  const agent::v1::ProbePlan& plan_;
  RankContext& job_;
  Device& device_;
  const std::vector<ModelSpec> models_;
  std::unique_ptr<LayerKernels> kernels_;
  std::unique_ptr<Communicator> control_;
  // Without groups if there is only one rank.
  CommunicatorMemory communicators_;
  absl::Duration time_budget_;
  absl::Duration collective_time_limit_;
  absl::Duration layer_time_limit_;
  absl::Duration start_;
  int load_count_ = 0;
  v1::Profile profile_;
  ProfileEntries entries_{profile_};
  // Pairs (model index, tensor-parallel degree) that have been measured.
  std::set<std::pair<int, int>> measured_sizes_;
};

}  // namespace

absl::StatusOr<v1::Profile> RunProbe(const agent::v1::ProbePlan& plan, RankContext& job,
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
  // The kernels are those of the executor.
  profile.set_runtime_id("parplan");
  profile.set_devices_per_node(DevicesPerNode(plan));
  for (const auto& [library, version] : description.libraries) {
    v1::LibraryVersion& entry = *profile.mutable_provenance()->add_library_versions();
    entry.set_library(library);
    entry.set_version(version);
  }
  return profile;
}

}  // namespace parplan
