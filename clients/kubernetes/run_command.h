// `parplan-sidecar run`: accompanies a job until a signal ends it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_
#define PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_

#include <csignal>

#include "absl/status/status.h"
#include "clients/kubernetes/sidecar_flags.h"

namespace parplan::sidecar {

// Serves until one of `signals`, which are blocked in all threads. UNAVAILABLE if some of what the
// job reported could not be sent to the server: it stays in the state folder. Other errors are
// returned before anything is served.
absl::Status RunBeside(const SidecarFlags& flags, const sigset_t& signals);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_
