// A job as Slurm tells of it.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_FACTS_H_
#define PARPLAN_CLIENTS_SLURM_JOB_FACTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan::slurm {

// The names of a host list: `n[01-03,7],login` is n01, n02, n03, n7 and login. INVALID_ARGUMENT
// for one that is none, or names more than 65536 hosts.
absl::StatusOr<std::vector<std::string>> ExpandHosts(absl::string_view host_list);

// Devices of one kind, of GRES such as `gpu:h200:8(IDX:0-7)`.
struct GresCount {
  // `gpu:h200`, or `gpu` where it has no type.
  std::string name;
  int64_t count = 0;
  friend bool operator==(const GresCount&, const GresCount&) = default;
};
// INVALID_ARGUMENT for what is no such list; empty for `` and `(null)`.
absl::StatusOr<std::vector<GresCount>> ParseGres(absl::string_view text);

// What one node gives to the job.
struct JobNode {
  std::string name;
  std::vector<GresCount> gres;
};

// What the user asked of the planner, as the SPANK plugin hands it on.
struct JobWishes {
  // `auto`, or the name of a plan; `off` also where there is nothing.
  std::string plan = "off";
  // The model file, whole.
  std::string model;
  int64_t global_batch_size = 0;
  // Empty: the default.
  std::string planner;
  std::string runtime;
};

struct JobFacts {
  // A variable's value, or null where it is not set.
  using Lookup = std::function<const char*(const char* name)>;

  std::string job_id;
  // What scontrol and scancel take for this job alone: `100_7` for a task of an array, whose last
  // task has the id of the whole array; `100+1` for a part of a heterogeneous job, whose first part
  // has the id of the whole job.
  std::string slurm_name;
  int64_t restart_count = 0;
  std::string submit_time;
  // Infinite where the job has none.
  absl::Duration time_limit = absl::InfiniteDuration();
  // As the job has them, in the order of its node list, which is that of node ranks.
  std::vector<JobNode> nodes;
  JobWishes wishes;
};

// The id and the wishes of the job of a prolog or an epilog. INVALID_ARGUMENT naming the variable.
absl::StatusOr<JobFacts> JobFromEnvironment(const JobFacts::Lookup& lookup);

// Of what `scontrol show job` prints, the part on the job with this id: it prints those of a whole
// array, or of a heterogeneous job, where one of them has the id. Empty where there is none.
absl::string_view RecordOfJob(absl::string_view scontrol_text, absl::string_view job_id);

// `DAYS-HH:MM:SS` or `HH:MM:SS`; infinite for everything else, such as `UNLIMITED`.
absl::Duration ParseTimeLimit(absl::string_view text);

// Adds what `scontrol show job -d` says of `job.job_id`: restarts, times, nodes and their GRES.
// `node_list` is the environment's. INVALID_ARGUMENT where the two disagree.
absl::Status AddJobDetails(absl::string_view scontrol_text, absl::string_view node_list,
                           JobFacts& job);

// The value of `name=` in what scontrol prints, up to the next space; empty where there is none.
// Only for fields before those that users write.
std::string FieldOf(absl::string_view scontrol_text, absl::string_view name);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_FACTS_H_
