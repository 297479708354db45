// `parplan-sidecar run`: accompanies a job until a signal ends it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_
#define PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_

#include <csignal>

#include "absl/status/status.h"
#include "clients/kubernetes/sidecar_flags.h"

namespace parplan::sidecar {

// Serves until SIGTERM or SIGINT, then sends what waits, and abandons at the server the executions
// that still run. This takes at most about `flags.drain_time`, and then the rest of calls under
// way, up to 10 s. main.cc calls it with flags of `ReadFlags`. REQUIRES, unchecked: `signals` has
// both, and is blocked in all threads.
//
// OK if the server has everything that the job reported. UNAVAILABLE (STORE_UNAVAILABLE) if some of
// it could not be sent within `flags.drain_time`: it stays in the state folder. FAILED_PRECONDITION
// (EXECUTION_STATE) if all was sent but the server refused some windows. Other errors come from the
// start: those of PlanKeeper::Open, WindowJournal::Open, ReportService::Start, of ports that can't
// be opened (UNAVAILABLE), and of port files that can't be written.
absl::Status RunBeside(const SidecarFlags& flags, const sigset_t& signals);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_RUN_COMMAND_H_
