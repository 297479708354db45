// Makes the request to the planner for a job. `PreparePlan` (controller.h) sends it.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
#define PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/slurm_config.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/topology.pb.h"

namespace parplan::slurm {

// Returns the devices of the job as one group of equal nodes, in the order of its node list.
// INVALID_ARGUMENT (SPEC_INVALID), with what to ask Slurm for, if there are no nodes, or they
// differ, have several kinds of devices, or none that the configuration names.
absl::StatusOr<v1::ClusterTopology> TopologyOfJob(const SlurmConfig& config,
                                                  const std::vector<JobNode>& nodes);

// Returns the request of a job whose wish is `auto`, bound to the job and its nodes. Its request id
// is derived from the job, its submit time, nodes and number of restarts, so repeating it gives the
// same plan. INVALID_ARGUMENT (SPEC_INVALID) in the cases of `TopologyOfJob`, for a missing batch,
// a missing or malformed model, and an unknown program to export for; FAILED_PRECONDITION if the
// configuration's devices make no valid topology, which is no fault of the job.
absl::StatusOr<v1::CreatePlanRequest> QuestionOfJob(const SlurmConfig& config, const JobFacts& job);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
