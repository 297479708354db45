// The errors of the planner that are the job's fault, and those that pass. The work on the
// controller (controller.h) asks: its prolog both, its epilog the second.

#ifndef PARPLAN_CLIENTS_SLURM_REFUSAL_H_
#define PARPLAN_CLIENTS_SLURM_REFUSAL_H_

#include "absl/status/status.h"

namespace parplan::slurm {

// Returns whether the job asks for what cannot be, so that it would be refused again: nothing fits,
// a field or a name is wrong, the plan has expired or is for others, or the search needs more
// memory than the server gives one. Goes by the reason of the error alone, which is then
// SPEC_INVALID, NO_FEASIBLE_PLAN, RESOURCE_NOT_FOUND, PLAN_EXPIRED, AUDIENCE_MISMATCH,
// TOPOLOGY_MISMATCH or SEARCH_OUT_OF_MEMORY; false for OK and for an error without a reason.
bool IsRefusal(const absl::Status& status);

// Returns whether the same call may succeed in a moment: UNAVAILABLE, CANCELLED and
// RESOURCE_EXHAUSTED, unless it is a refusal. False for OK and for every other code, such as
// DEADLINE_EXCEEDED.
bool MayPass(const absl::Status& status);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_REFUSAL_H_
