// Makes the request to the planner for a job. `PreparePlan` (controller.h) sends it, and compares
// the topology with that of a plan that the job names.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
#define PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/slurm_config.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/topology.pb.h"

namespace parplan::slurm {

// Returns the devices of the job as one group of equal nodes, in the order of its node list. GRES
// that `config.devices` does not name, and those with a count of 0, are left out. There is a link
// tier inside nodes, unless several nodes have one device each, and one between nodes if there are
// several. Whether the planner accepts the configuration's names and sizes is not checked here.
// INVALID_ARGUMENT (SPEC_INVALID) if there are no nodes, or, with what to ask Slurm for, if they
// differ, have several kinds of devices that the configuration names, or none; and for more than
// 65,536 devices of a node, or 2^31 or more of all.
absl::StatusOr<v1::ClusterTopology> TopologyOfJob(const SlurmConfig& config,
                                                  const std::vector<JobNode>& nodes);

// Returns the request of a job whose wish is `auto`, bound to the job and its nodes. Its request id
// is derived from the job, its submit time, nodes and number of restarts, so repeating it gives the
// same plan. A job that names neither target nor space, but one program to export for, gets that
// program's target. The plan lives a day longer than the job's time limit, of which at most 3650
// days count, if the server allows that. Planner, runtime, target and space are passed on
// unchecked. REQUIRES, unchecked: `AddJobDetails` completed `job`. INVALID_ARGUMENT (SPEC_INVALID)
// in the cases of `TopologyOfJob`, for a missing batch, a missing or malformed model, and an
// unknown or repeated program to export for; FAILED_PRECONDITION if the configuration's devices
// make no valid topology, which is no fault of the job.
absl::StatusOr<v1::CreatePlanRequest> QuestionOfJob(const SlurmConfig& config, const JobFacts& job);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
