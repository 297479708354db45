// The files of a job on a node for its tasks, in a folder that only the user of the hook, root, may
// write to.
//
//   plan.dsse.json  model.json  topology.json  ranks.json    docs/launch.md
//   node.env        variables of every task
//   rank-K.env      further variables of the K-th rank of the node
//   TARGET/         the files of a program of exports/exporters.h, one folder for each asked for
//   refused         why no task may start: then the only file
//
// A job that starts without a plan has `node.env` alone. K counts from 0.
//
// `planctl slurm-node-prolog` writes these and `planctl slurm-node-epilog` removes them;
// spank_parplan.c reads them.

#ifndef PARPLAN_CLIENTS_SLURM_NODE_FILES_H_
#define PARPLAN_CLIENTS_SLURM_NODE_FILES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/slurm/job_bundle.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan::slurm {

// Contents by name. A name has at most one `/`, behind the name of a folder.
using NodeFiles = std::map<std::string, std::string>;

// The node and job of the files, and the folder they will be in.
struct NodeOfJob {
  // Name of the cluster, Slurm's id of the job, and Slurm's name of the node.
  std::string cluster;
  std::string job_id;
  std::string node_name;
  // Path of the folder as the tasks see it, without a slash at its end. The job's variables name
  // the files by it.
  std::string folder;
  // Path of the trust bundle, which the job's variables name.
  std::string trust_path;
  // The programs whose files are made too (JobWishes::exports), separated by commas.
  std::string exports;
};

// Verifies the plan at `now` for this cluster, job and node, and makes the files; writes nothing.
// Returns the errors of PlanVerifier and LaunchPlan; PERMISSION_DENIED (AUDIENCE_MISMATCH) also for
// a node that neither the topology nor `bundle.node_names` names; INVALID_ARGUMENT for an envelope
// (PAYLOAD_MALFORMED), model or topology (SPEC_INVALID) that is malformed, and for `exports`
// (SPEC_INVALID naming --plan-export); the errors of ExportVerifiedPlan, and of VariableLines. A
// job without a plan (`bundle.without_plan`) gets the variable PARPLAN_NO_PLAN with the reason
// alone, and no error; `trust` and `node` are then not read.
absl::StatusOr<NodeFiles> MakeNodeFiles(const JobBundle& bundle, const TrustBundle& trust,
                                        const NodeOfJob& node, absl::Time now);

// Makes the file of a job that must not start; control characters of `why` become blanks.
NodeFiles RefusalFiles(const std::string& why);

// Replaces the folder whole or not at all (on file systems that cannot exchange two folders there
// is none for a moment, and after an error there may be none), and makes its parents. Everybody may
// read the files. A folder beside it, with `.new` at the end of its name, is used and removed.
// FAILED_PRECONDITION if the parent belongs to another user or users other than its owner may write
// to it, UNAVAILABLE naming what could not be written; neither has a reason. After UNAVAILABLE the
// folder beside it may be left over, with the old files if only its removal failed; the next call
// removes it. REQUIRES, unchecked: one writer of a folder at a time; `folder` has no slash at its
// end.
absl::Status WriteNodeFiles(const std::string& folder, const NodeFiles& files);
// Removes the folder if it exists; UNAVAILABLE if that fails.
absl::Status RemoveNodeFiles(const std::string& folder);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_NODE_FILES_H_
