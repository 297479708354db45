// A site's configuration of plans for its Slurm jobs (docs/slurm.md). The hooks that planctl has
// for Slurm read it first for a job that has a wish for a plan.

#ifndef PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_
#define PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan::slurm {

// The devices behind a GRES in the planner's terms (topology.proto).
struct DeviceTemplate {
  // Required: the kind, and the memory of a device in bytes, at least 1.
  std::string device_kind;
  int64_t device_memory_bytes = 0;
  // Part of it that jobs cannot use, in bytes, at least 0. That it is below the whole is checked by
  // `QuestionOfJob` (job_question.h), for each job.
  int64_t reserved_memory_bytes = 0;
  // Tiers of links within a node and between nodes.
  std::string node_tier = "node";
  std::string fabric_tier = "fabric";
  // The value of `ClusterTopology.fabric_id`.
  std::string fabric_id;
};

// The fate of a job that gets no plan: it starts without one (`launch` in the file), goes back to
// the queue (`requeue`), or is cancelled with the reason (`cancel`).
enum class Policy { kLaunch, kRequeue, kCancel };

// A value.
struct SlurmConfig {
  // Reads a JSON object; `file_name` is for messages. Members have the names of the fields below
  // but for the two in seconds; those that are absent keep the values below. Whole numbers may be
  // texts of digits. INVALID_ARGUMENT (SPEC_INVALID) with file, field and, where one member alone
  // is wrong, in most cases the line: for text that is not JSON, a member that is unknown,
  // repeated, missing or out of range, a path that is not absolute, a token that would be sent
  // without TLS, and a search that is not shorter than the deadline. Whether the address, the TLS
  // files and the devices are usable is not checked.
  static absl::StatusOr<SlurmConfig> FromJson(absl::string_view text, absl::string_view file_name);

  // Name of the cluster, a resource id (resource_name.h), and address of the planner's server
  // (`ChannelOptions::target`). Both are required.
  std::string cluster;
  std::string server;
  // Files and name for TLS to the planner, as in `ChannelOptions` (clients/cpp/channel.h). Any of
  // the three files turns TLS on.
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_server_name;
  // The value of `ChannelOptions::token_file`; needs TLS or a server at `unix:PATH`.
  std::string token_file;

  // Time limit of the whole prolog of one job, at most an hour, and of the search within it, which
  // is shorter; above 0 (`deadline_seconds`, `search_seconds`). The epilog has the first limit,
  // too; the hooks on nodes have limits of their own.
  absl::Duration deadline = absl::Seconds(20);
  absl::Duration search_time = absl::Seconds(10);
  // If the planner cannot be reached or does not answer in time: kLaunch or kRequeue. On a node
  // that finds no plan in the spool in time, kLaunch lets the job start without one, and kRequeue
  // refuses it.
  Policy when_away = Policy::kLaunch;
  // If the planner answers that nothing fits, or that the request is wrong: kLaunch or kCancel.
  Policy when_refused = Policy::kCancel;
  // If a node cannot verify the plan of a job: kLaunch or kCancel.
  Policy when_unverified = Policy::kCancel;
  // The value of `PlanningOptions.allow_estimates`.
  bool allow_estimates = true;

  // Folder for plans on their way from the controller to the nodes. Both must see it; only
  // SlurmUser may write to it.
  std::string spool_dir = "/var/spool/parplan-slurm";
  // Folder of a node for the files of its jobs; `%n` stands for the name of the node (`NodePath`).
  std::string node_dir = "/run/parplan/jobs";
  // Path of the trust bundle on the nodes.
  std::string trust = "/etc/parplan/trust-bundle.jwks.json";
  // Path of the file on the nodes that remembers the bundle accepted last; empty: none.
  std::string trust_memory;
  // Folder of scontrol and scancel, and the configuration they read.
  std::string slurm_bin_dir = "/usr/bin";
  std::string slurm_conf = "/etc/slurm/slurm.conf";
  // Each job takes two ports in the range of 10000 that begins at this one, which is 1024 to 55000.
  // Jobs whose ids differ by a multiple of 5000 take the same two.
  int first_master_port = 20000;
  // `syslog`, or a file to append to.
  std::string log = "syslog";

  // Devices by GRES name and type, `gpu:h200`, or by the name alone for a GRES without types. At
  // least one.
  std::map<std::string, DeviceTemplate> devices;
};

// Returns `path` with each `%n` replaced by the name of the node.
std::string NodePath(const std::string& path, const std::string& node);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_SLURM_CONFIG_H_
