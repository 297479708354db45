// Reads what Slurm reports about a job. The hooks of planctl read it, and `PreparePlan` completes
// it.

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

// Returns the names of a host list in its order: n01, n02, n03, n7 and login for
// `n[01-03,7],login`. A name may have several brackets; a host that comes twice is there twice.
// INVALID_ARGUMENT with no `Reason` for a malformed or empty list, or one of more than 65536 hosts.
absl::StatusOr<std::vector<std::string>> ExpandHosts(absl::string_view host_list);

// Devices of one kind, from a GRES such as `gpu:h200:8(IDX:0-7)`.
struct GresCount {
  // `gpu:h200`, or `gpu` for a GRES without a type.
  std::string name;
  int64_t count = 0;
  friend bool operator==(const GresCount&, const GresCount&) = default;
};
// Parses a list of GRES, in its order; an empty text and `(null)` give an empty list. Every entry
// needs a count of at least 0, behind its last colon or as `(CNT:2)`; one of 0 stays in the list.
// INVALID_ARGUMENT with no `Reason` for a malformed list.
absl::StatusOr<std::vector<GresCount>> ParseGres(absl::string_view text);

// A node of the job and the devices it gives to the job.
struct JobNode {
  std::string name;
  std::vector<GresCount> gres;
};

// The user's options for the planner, as the SPANK plugin passes them on.
struct JobWishes {
  // `auto`, `off` (also if the user gave nothing), or the name of a plan.
  std::string plan = "off";
  // Content of the model file; empty if there is none.
  std::string model;
  // Samples of a step; 0 if the user gave none or no number. `QuestionOfJob` refuses any below 1.
  int64_t global_batch_size = 0;
  // The next four are values of `PlanningOptions`; empty: the default.
  std::string planner;
  std::string runtime;
  std::string target;
  std::string space;
  // Targets of exports/exporters.h, separated by commas, whose files the nodes make; may be empty.
  std::string exports;
};

// A job of Slurm: `JobFromEnvironment` reads its ids and wishes, `AddJobDetails` the rest.
struct JobFacts {
  // Returns the value of an environment variable, or null if it is not set. The value is copied
  // before the next call.
  using Lookup = std::function<const char*(const char* name)>;

  // The number of the job, as digits.
  std::string job_id;
  // The name by which scontrol and scancel address this job alone: `100_7` for a task of an array,
  // whose last task has the id of the whole array; `100+1` for a part of a heterogeneous job, whose
  // first part has the id of the whole job.
  std::string slurm_name;
  // Number of times that Slurm has started the job again; 0 if it reports none.
  int64_t restart_count = 0;
  // The time at which the job was submitted, in the words of scontrol; makes request ids unique if
  // job ids are used again.
  std::string submit_time;
  // Longest time that the job may run; infinite if it has none.
  absl::Duration time_limit = absl::InfiniteDuration();
  // The job's nodes in the order of its node list, which is the order of node ranks.
  std::vector<JobNode> nodes;
  JobWishes wishes;
};

// Reads the job's ids, number of restarts and wishes (SPANK_PARPLAN_*) from the environment of a
// prolog or an epilog. INVALID_ARGUMENT (SPEC_INVALID) naming SLURM_JOB_ID if that is no number of
// 1 to 20 digits; other variables that are missing, or should be a number and are not, count as not
// given.
absl::StatusOr<JobFacts> JobFromEnvironment(const JobFacts::Lookup& lookup);

// Returns the line that begins with `start`, a part of `scontrol_text` without the spaces around
// it, in the output of `scontrol show job` for one job. INVALID_ARGUMENT (SPEC_INVALID) if there
// are several: scontrol prints names, comments and paths as they are, with line breaks, so another
// one than the first may be the true one. INVALID_ARGUMENT with no `Reason` if there is none.
//
// The text is read because no other form has all facts: scontrol of Slurm 22.05 has no `--json`,
// `squeue --json` prints all jobs of the cluster, and other formats of squeue lack the GRES of each
// node.
absl::StatusOr<absl::string_view> OnlyLine(absl::string_view scontrol_text,
                                           absl::string_view start);

// Parses the time limit of a job, `DAYS-HH:MM:SS` or `HH:MM:SS`; infinite for everything else, such
// as `UNLIMITED`.
absl::Duration ParseTimeLimit(absl::string_view text);

// Fills in restarts, times, nodes and their GRES of `job.job_id` from the output of `scontrol show
// job -d` for `job.slurm_name`. `node_list` is SLURM_JOB_NODELIST, which gives the order of the
// nodes; lines about other nodes do not count. Whatever a user writes into the name of the job, its
// comment or another text, the facts are those of Slurm, or there is an error: INVALID_ARGUMENT
// (SPEC_INVALID) for a text with a line that looks like one of those facts (`OnlyLine`).
// INVALID_ARGUMENT with no `Reason` if one of the two is malformed, a fact is missing, or a node of
// `node_list` is. `job` is then half filled.
absl::Status AddJobDetails(absl::string_view scontrol_text, absl::string_view node_list,
                           JobFacts& job);

// Returns the value of `name=` in the output of scontrol, up to the next space; empty if there is
// none. Only for lines without texts of users, and for nodes, which have none.
std::string FieldOf(absl::string_view scontrol_text, absl::string_view name);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_FACTS_H_
