// What the controller leaves for the nodes of a job, and how it gets there.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_
#define PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::slurm {

// One job's. Only the plan is signed; model and topology are known by their digests in it. A
// value.
struct JobBundle {
  // INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming the field.
  static absl::StatusOr<JobBundle> FromJson(absl::string_view text);
  std::string ToJson() const;

  std::string job_id;
  // Why there is no plan; the fields below are empty then.
  std::string without_plan;
  // Whole files: the envelope, the model and the topology, as JSON.
  std::string envelope;
  std::string model;
  std::string topology;
  // In rank order, where the plan names none.
  std::vector<std::string> node_names;
  // The node of rank 0, and a port there.
  std::string master_address;
  int master_port = 0;
};

// `{spool_dir}/{job_id}.json`.
std::string BundlePath(const std::string& spool_dir, const std::string& job_id);

// Whole or not at all. One writer at a time.
absl::Status WriteBundle(const std::string& spool_dir, const JobBundle& bundle);
// NOT_FOUND where there is none; DATA_LOSS where it is of another job.
absl::StatusOr<JobBundle> ReadBundle(const std::string& spool_dir, const std::string& job_id);
void RemoveBundle(const std::string& spool_dir, const std::string& job_id);

// A file of at most 64 MiB. NOT_FOUND where there is none, INVALID_ARGUMENT where it cannot be
// read.
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_
