#include "profiler-agent/main/once.h"

#include <cerrno>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/output_file.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "profiler-agent/measure/torch_job.h"
#include "proto/wire/json_file.h"
#include "proto/wire/resource_name.h"

namespace parplan {
namespace {

absl::Status WriteOutput(const std::string& text) {
  errno = 0;
  std::cout << text << std::flush;
  if (std::cout) return absl::OkStatus();
  return absl::UnavailableError(DescribeErrno(errno, "cannot write standard output"));
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path == "-") return WriteOutput(text);
  const absl::Status written = WriteOutputFile(path, text);
  return written.ok() ? written : absl::UnavailableError(written.message());
}

TopologyOptions TopologyOptionsOf(const Settings& settings) {
  TopologyOptions options;
  options.cluster = settings.cluster;
  options.node = settings.node;
  options.device_type = settings.daemon.measurement.device_type;
  options.device_count = settings.daemon.request.rank_count;
  return options;
}

}  // namespace

absl::Status CompleteSettings(Settings& settings) {
  PARPLAN_RETURN_IF_ERROR(NodeName::Parse(settings.daemon.parent, "--cluster and --node").status());
  ProbeRequest& request = settings.daemon.request;
  PARPLAN_ASSIGN_OR_RETURN(request.models, ReadModels(settings.model_paths));
  PARPLAN_ASSIGN_OR_RETURN(const NodeInventory inventory,
                           ReadInventory(settings.daemon.measurement.inventory));
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology,
                           ToTopology(inventory, TopologyOptionsOf(settings)));
  request.rank_count = topology.device_count();
  if (request.torch.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string version, TorchVersion(request.torch->program()));
    request.torch->set_version(version);
  }
  return WholeProbe(request).status();
}

absl::Status MeasureOnce(const Settings& settings) {
  const DaemonOptions& options = settings.daemon;
  PARPLAN_ASSIGN_OR_RETURN(const agent::v1::ProbePlan plan, WholeProbe(options.request));
  PARPLAN_ASSIGN_OR_RETURN(const NodeInventory inventory,
                           ReadInventory(options.measurement.inventory));
  MeasurementOptions measurement = options.measurement;
  measurement.heeds_signals = true;
  const absl::Duration start = SteadyNow();
  PARPLAN_ASSIGN_OR_RETURN(const v1::Profile profile, MeasureNode(inventory, plan, measurement));
  PARPLAN_RETURN_IF_ERROR(WriteFile(settings.out_path, ToReadableJson(profile)));
  if (!settings.topology_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ClusterTopology topology,
                             TopologyOf(inventory, TopologyOptionsOf(settings), profile));
    PARPLAN_RETURN_IF_ERROR(WriteFile(settings.topology_path, ToReadableJson(topology)));
  }
  std::cerr << "parplan-agent: measured " << profile.devices_per_node() << " x "
            << profile.device_kind() << " in " << absl::ToInt64Seconds(SteadyNow() - start)
            << " s: " << profile.collective_timings_size() << " collective timings, "
            << profile.layer_timings_size() << " layer timings\n";
  for (const std::string& note : profile.provenance().notes()) {
    std::cerr << "parplan-agent: " << note << "\n";
  }
  return absl::OkStatus();
}

absl::Status PrintInventory(const Settings& settings) {
  PARPLAN_ASSIGN_OR_RETURN(const NodeInventory inventory,
                           ReadInventory(settings.daemon.measurement.inventory));
  std::string text =
      absl::StrCat(InventoryText(inventory), "fingerprint ", InventoryFingerprint(inventory), "\n");
  if (!inventory.gpus.message.empty()) {
    absl::StrAppend(&text, "no GPU: ", inventory.gpus.message, "\n");
  }
  const std::string busy = BusyGpuText(inventory.gpus);
  if (!busy.empty()) absl::StrAppend(&text, "busy: ", busy, "\n");
  return WriteOutput(text);
}

}  // namespace parplan
