// `parplan-sidecar init`: waits for the plan of a job and puts it on the shared volume.

#ifndef PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_
#define PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_

#include "absl/status/status.h"
#include "clients/kubernetes/sidecar_flags.h"

namespace parplan::sidecar {

// Tries until there is a plan that passes verification; returns the last error once the next try
// would begin after `flags.deadline`, so it takes up to `flags.call_timeout` longer. A plan that
// was refused is an error at once. Prints the plan's name on standard output. Returns the errors of
// PlanFetcher::Fetch, MakePlanFiles and PlanVolume.
absl::Status RunInit(const SidecarFlags& flags);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_INIT_COMMAND_H_
