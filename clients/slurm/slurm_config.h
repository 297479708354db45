// What a site says once about plans for its Slurm jobs. docs/slurm.md.

#ifndef PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_
#define PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan::slurm {

// The devices behind a GRES, as the planner knows them (topology.proto).
struct DeviceTemplate {
  std::string device_kind;
  int64_t device_memory_bytes = 0;
  int64_t reserved_memory_bytes = 0;
  // Tiers of links within a node and between nodes.
  std::string node_tier = "node";
  std::string fabric_tier = "fabric";
  // As `ClusterTopology.fabric_id`.
  std::string fabric_id;
};

// What becomes of a job that gets no plan: it starts without one, goes back to the queue, or
// ends with the reason.
enum class Policy { kLaunch, kRequeue, kCancel };

// A value.
struct SlurmConfig {
  // Reads a JSON object, strictly: INVALID_ARGUMENT (SPEC_INVALID) with file, line and field for
  // a member that is unknown, repeated, missing or out of range.
  static absl::StatusOr<SlurmConfig> FromJson(absl::string_view text, absl::string_view file_name);

  // Of the planner; required.
  std::string cluster;
  std::string server;
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_server_name;

  // For everything the prolog does for one job, and for the search within it.
  absl::Duration deadline = absl::Seconds(20);
  absl::Duration search_time = absl::Seconds(10);
  // When the planner cannot be reached or has no answer in time: kLaunch or kRequeue.
  Policy when_away = Policy::kLaunch;
  // When it says that nothing fits, or that the question is wrong: kLaunch or kCancel.
  Policy when_refused = Policy::kCancel;
  // When a node cannot verify the plan of a job: kLaunch or kCancel.
  Policy when_unverified = Policy::kCancel;
  // As `PlanningOptions.allow_estimates`.
  bool allow_estimates = true;

  // Plans on their way from the controller to the nodes: a folder that both see, which only
  // SlurmUser may write to.
  std::string spool_dir = "/var/spool/parplan-slurm";
  // Where a node keeps the files of its jobs; `%n` becomes the name of the node.
  std::string node_dir = "/run/parplan/jobs";
  // The trust bundle on the nodes.
  std::string trust = "/etc/parplan/trust-bundle.jwks.json";
  // Where scontrol and scancel are, and which configuration they read.
  std::string slurm_bin_dir = "/usr/bin";
  std::string slurm_conf = "/etc/slurm/slurm.conf";
  // Jobs take two ports each, from this one up to 10000 above it.
  int first_master_port = 20000;
  // `syslog`, or a file to append to.
  std::string log = "syslog";

  // By GRES name and type, `gpu:h200`; by the name alone for a GRES without types. At least one.
  std::map<std::string, DeviceTemplate> devices;
};

// `path` with the name of the node in the place of `%n`.
std::string NodePath(const std::string& path, const std::string& node);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_
