// `parplan-sidecar init`: waits for the plan of a job and puts it on the shared volume.

#ifndef PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_
#define PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_

#include "absl/status/status.h"
#include "clients/kubernetes/sidecar_flags.h"

namespace parplan::sidecar {

// Tries until there is a plan that passes verification, and writes it as the next generation.
// Returns the last error once the next try would begin later than `flags.deadline` after the call;
// a try that has begun is not cut short, and each of its calls may take `flags.call_timeout`. An
// error that `MayStillCome` (plan_hope.h) does not accept, such as a plan that was refused, is
// returned at once. Prints the plan's name on standard output. Returns the errors of
// PlanFetcher::Fetch, MakePlanFiles and PlanVolume. main.cc calls it with flags of `ReadFlags`.
absl::Status RunInit(const SidecarFlags& flags);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_
