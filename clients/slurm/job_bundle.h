// The file that the controller writes to the spool for the nodes of a job. `PreparePlan` writes it,
// and `planctl slurm-node-prolog` reads it.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_
#define PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::slurm {

// The plan of one job with its model and topology. Only the plan is signed; model and topology are
// checked by their digests in it (`MakeNodeFiles`), not here. A value.
struct JobBundle {
  // Reads what `ToJson` wrote. INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming the field for text that
  // is not JSON or above 64 MiB, and for a member that is missing or of another type or range.
  // Members that are not known are ignored. Whether the members fit together is not checked.
  static absl::StatusOr<JobBundle> FromJson(absl::string_view text);
  // Writes all members. Bytes that are not UTF-8 are replaced.
  std::string ToJson() const;

  std::string job_id;
  // The reason if there is no plan; then the fields below are empty. Empty if there is one.
  std::string without_plan;
  // Whole files: the envelope, the model and the topology, as JSON.
  std::string envelope;
  std::string model;
  std::string topology;
  // Names of the nodes in rank order if the plan's topology names none, else empty.
  std::vector<std::string> node_names;
  // The address of the node of rank 0, and a port there, up to 65534; 0 for none.
  std::string master_address;
  int master_port = 0;
};

// Returns `{spool_dir}/{job_id}.json`. REQUIRES, here and below, unchecked: `job_id` is that of
// `JobFromEnvironment`, digits alone.
std::string BundlePath(const std::string& spool_dir, const std::string& job_id);

// Creates or replaces the file, whole or not at all, readable by all, in a folder that exists.
// Returns the errors of WriteDurably (proto/envelope/durable_file.h). REQUIRES, unchecked: one
// writer at a time.
absl::Status WriteBundle(const std::string& spool_dir, const JobBundle& bundle);
// Reads the file. NOT_FOUND if there is none, DATA_LOSS if it names another job, both without a
// reason, and the errors of ReadText and `JobBundle::FromJson`.
absl::StatusOr<JobBundle> ReadBundle(const std::string& spool_dir, const std::string& job_id);
// Removes the file if there is one; failures are ignored.
void RemoveBundle(const std::string& spool_dir, const std::string& job_id);

// Reads a file of at most 64 MiB. NOT_FOUND if there is none, INVALID_ARGUMENT (SPEC_INVALID)
// naming the path if it can't be read or is larger.
absl::StatusOr<std::string> ReadText(const std::string& path);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_BUNDLE_H_
