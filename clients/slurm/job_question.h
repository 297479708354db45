// What the planner is asked for a job.

#ifndef PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
#define PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_

#include "absl/status/statusor.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/slurm_config.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/topology.pb.h"

namespace parplan::slurm {

// The devices of the job as one group of equal nodes, in the order in which it has them.
// INVALID_ARGUMENT (SPEC_INVALID) that says what to ask Slurm for where the nodes differ, or
// have no devices the configuration knows, or several kinds of them.
absl::StatusOr<v1::ClusterTopology> TopologyOfJob(const SlurmConfig& config,
                                                  const std::vector<JobNode>& nodes);

// The question of a job whose wish is `auto`, bound to the job and its nodes. Its request id
// follows from the job and how often it was started, so asking again gives the same plan.
// INVALID_ARGUMENT (SPEC_INVALID) also for a model that is none.
absl::StatusOr<v1::CreatePlanRequest> QuestionOfJob(const SlurmConfig& config, const JobFacts& job);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_JOB_QUESTION_H_
