#include "profiler-agent/measure/measurement.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "profiler-agent/measure/clock_log.h"
#include "profiler-agent/measure/node_load.h"
#include "profiler-agent/measure/probe_job.h"
#include "profiler-agent/measure/torch_job.h"
#include "profiler-agent/probe/probe_plan.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/topology_wire.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

constexpr char kBusyUrl[] = "parplan/busy-node";
// Time a probe may take beyond its budget, for its start and for the measurement under way when the
// budget ends. Not measured: chosen generously, since reaching it loses the whole profile.
constexpr absl::Duration kBeyondBudget = absl::Minutes(3);
// The same for parplan-torch, which has no limit of its own: it repeats every time until it is
// known or for a share of the budget, and imports PyTorch in each of its processes.
constexpr absl::Duration kBeyondTorchBudget = absl::Minutes(15);

// Looks at the GPUs every second, while it lives: notes their clocks in `clocks`, which belongs to
// it until `End`, and stops the job if other processes use them, unless those may.
class GpuWatch {
 public:
  GpuWatch(NodeJob& job, const MeasurementOptions& options, ClockLog& clocks)
      : thread_([this, &job, &options, &clocks] {
          constexpr std::chrono::seconds kInterval{1};
          const bool has_ids_of_the_node = HasIdsOfTheNode(options.pid_namespace);
          std::unique_lock<std::mutex> lock(mutex_);
          while (!changed_.wait_for(lock, kInterval, [this] { return is_ending_; })) {
            const GpuSet gpus = ReadGpus(options.inventory.gpus);
            clocks.Add(gpus);
            if (options.even_if_busy) continue;
            const std::string strangers = StrangersOn(gpus.states, job.pids(), has_ids_of_the_node);
            if (strangers.empty()) continue;
            found_ = strangers;
            job.Stop(strangers);
            return;
          }
        }) {}
  ~GpuWatch() { End(); }

  // Ends the watch and returns who used the GPUs and may not; empty if no other process did.
  std::string End() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    return found_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool is_ending_ = false;
  std::string found_;
  std::thread thread_;
};

absl::Status BusyRefusal(absl::string_view why) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("this node is busy: ", why,
                   "; measure when it is free, or pass --even-if-busy to accept times of a busy "
                   "node"));
  status.SetPayload(kBusyUrl, absl::Cord("1"));
  return status;
}

// Waits for a job while the GPUs are watched, and notes their clocks in its profile.
absl::StatusOr<v1::Profile> WaitFor(NodeJob& job, const agent::v1::ProbePlan& plan,
                                    const MeasurementOptions& options) {
  if (options.on_job != nullptr) options.on_job(&job);
  absl::StatusOr<v1::Profile> profile = absl::UnknownError("");
  std::string strangers;
  ClockLog clocks(DevicesPerNode(plan));
  if (options.device_type == DeviceType::kCuda) {
    GpuWatch watch(job, options, clocks);
    profile = job.Wait();
    strangers = watch.End();
  } else {
    profile = job.Wait();
  }
  if (options.on_job != nullptr) options.on_job(nullptr);
  if (!strangers.empty()) return BusyRefusal(strangers);
  if (profile.ok()) {
    for (std::string& note : clocks.Notes()) {
      profile->mutable_provenance()->add_notes(std::move(note));
    }
  }
  return profile;
}

absl::StatusOr<v1::Profile> RunProbeJob(const agent::v1::ProbePlan& plan,
                                        const MeasurementOptions& options) {
  ProbeJobOptions job_options;
  job_options.program = options.probe_program;
  job_options.pins = options.pins;
  job_options.heeds_signals = options.heeds_signals;
  job_options.on_line = options.on_line;
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration budget,
                           DurationFromProto(plan.time_budget(), "time_budget"));
  job_options.time_limit = budget + kBeyondBudget;
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<ProbeJob> job, ProbeJob::Start(plan, job_options));
  return WaitFor(*job, plan, options);
}

// Runs parplan-torch for each model that has layers in the plan, and merges the profiles. Only the
// first run measures collectives.
absl::StatusOr<v1::Profile> RunTorchJobs(const agent::v1::ProbePlan& plan,
                                         const std::string& device_kind,
                                         const MeasurementOptions& options) {
  TorchJobOptions job_options;
  job_options.device_kind = device_kind;
  job_options.heeds_signals = options.heeds_signals;
  job_options.on_line = options.on_line;
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration budget,
                           DurationFromProto(plan.time_budget(), "time_budget"));
  job_options.time_limit = budget + kBeyondTorchBudget;
  std::set<int> models;
  for (const agent::v1::LayerKey& key : plan.layers()) models.insert(key.model_index());
  // Without layers the first model stands for what does not depend on a model.
  if (models.empty()) models.insert(0);
  v1::Profile merged;
  for (const int model : models) {
    job_options.measures_collectives = model == *models.begin();
    PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<TorchJob> job,
                             TorchJob::Start(plan, model, job_options));
    PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, WaitFor(*job, plan, options));
    if (profile.runtime_id() != plan.torch().runtime_id()) {
      return absl::DataLossError(absl::StrCat(
          plan.torch().program(), " measured the runtime `", profile.runtime_id(), "`, and not `",
          plan.torch().runtime_id(), "`; choose it with --runtime, and not with --torch-argument"));
    }
    merged = merged.device_kind().empty() ? std::move(profile) : MergedProfile(merged, profile);
  }
  return merged;
}

bool HasLibrary(const v1::Provenance& provenance, absl::string_view name) {
  return std::any_of(
      provenance.library_versions().begin(), provenance.library_versions().end(),
      [name](const v1::LibraryVersion& version) { return version.library() == name; });
}

}  // namespace

bool IsBusyRefusal(const absl::Status& status) { return status.GetPayload(kBusyUrl).has_value(); }

absl::StatusOr<std::vector<ModelSpec>> ReadModels(const std::vector<std::string>& paths) {
  std::vector<ModelSpec> models;
  for (const std::string& path : paths) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
    v1::ModelSpec message;
    PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &message));
    PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(message, path));
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<v1::Profile> MeasureNode(const NodeInventory& inventory,
                                        const agent::v1::ProbePlan& plan,
                                        const MeasurementOptions& options) {
  TopologyOptions topology;
  topology.device_type = options.device_type;
  topology.device_count = DevicesPerNode(plan);
  PARPLAN_RETURN_IF_ERROR(ToTopology(inventory, topology).status());
  const std::string busy = BusyText(inventory, options.device_type, DevicesPerNode(plan));
  if (!busy.empty() && !options.even_if_busy) return BusyRefusal(busy);
  v1::Profile profile;
  if (plan.has_torch()) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string kind, DeviceKind(inventory, options.device_type));
    PARPLAN_ASSIGN_OR_RETURN(profile, RunTorchJobs(plan, kind, options));
    profile.mutable_provenance()->add_notes("Measured by parplan-torch.");
  } else {
    PARPLAN_ASSIGN_OR_RETURN(profile, RunProbeJob(plan, options));
  }
  // The node of rank 0 holds the profile.
  if (plan.meeting().first_rank() > 0) return profile;

  v1::Provenance& provenance = *profile.mutable_provenance();
  provenance.set_agent(absl::StrCat("parplan-agent ", kVersion));
  if (options.device_type == DeviceType::kCuda) {
    provenance.set_driver_version(inventory.gpus.driver_version);
    if (inventory.gpus.cuda_version > 0 && !HasLibrary(provenance, "cuda")) {
      v1::LibraryVersion& cuda = *provenance.add_library_versions();
      cuda.set_library("cuda");
      cuda.set_version(absl::StrCat(inventory.gpus.cuda_version / 1000, ".",
                                    inventory.gpus.cuda_version % 1000 / 10));
    }
  }
  if (!inventory.host.kernel.empty()) {
    v1::LibraryVersion& kernel = *provenance.add_library_versions();
    kernel.set_library("linux");
    kernel.set_version(inventory.host.kernel);
  }
  provenance.add_notes(absl::StrCat("Node ", InventoryFingerprint(inventory), "."));
  if (!busy.empty()) provenance.add_notes(absl::StrCat("Measured while ", busy, "."));
  // A profile made by this program must be valid.
  const absl::Status status = ValidateProfile(profile);
  if (!status.ok()) return absl::InternalError(status.message());
  return profile;
}

absl::StatusOr<v1::ClusterTopology> TopologyOf(const NodeInventory& inventory,
                                               const TopologyOptions& options,
                                               const v1::Profile& profile) {
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology, ToTopology(inventory, options));
  v1::ClusterTopology message = TopologyToProto(topology);
  // Planners match device kinds byte by byte.
  message.mutable_node_groups(0)->set_device_kind(profile.device_kind());
  return message;
}

}  // namespace parplan
