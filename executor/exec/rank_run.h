// One rank of parplan-exec, from joining the job to its end. main.cc calls it in every rank.

#ifndef PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_
#define PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_

#include "absl/status/status.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/exec/exec_flags.h"

namespace parplan {

// Joins the job as `self` and trains. Rank 0 also prints losses and the table, reports to the
// server and writes the results. `joined` is set once an error may be that of another rank.
//
// Returns the errors of ReadInputs, LoadBackend, CheckedPlan::CheckDevice, RendezvousServer::Start,
// JobFabric and PlanApplier; FAILED_PRECONDITION (TOPOLOGY_MISMATCH) if the node has fewer devices
// than ranks, OUT_OF_RANGE if the loss is not finite, INTERNAL if the results cannot be written. A
// server that cannot be reached is no error.
absl::Status RunRank(const ExecFlags& flags, const RankEnvironment& self, bool& joined);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_RANK_RUN_H_
