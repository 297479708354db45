// The command line of parplan-sidecar. main.cc parses it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_SIDECAR_FLAGS_H_
#define PARPLAN_CLIENTS_KUBERNETES_SIDECAR_FLAGS_H_

#include <string>
#include <variant>

#include "absl/time/time.h"
#include "base/service/shell/watch_flags.h"
#include "clients/cpp/channel.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_files.h"

namespace parplan::sidecar {

// The values of the flags. `ReadFlags` checks them, but looks at no file and asks no server.
// Durations are above 0.
struct SidecarFlags {
  // `parplan-sidecar init` and `parplan-sidecar run`.
  enum class Command { kInit, kRun };
  Command command = Command::kInit;
  ChannelOptions server;
  // The plan to fetch, the trust bundle, the job and the node.
  PlanWanted wanted;
  // The shared volume, and this pod's place in the job.
  PlanFilesOptions files;
  // Limit of one call to the server; `run` allows at most 10 s, so that it can end in time.
  absl::Duration call_timeout = absl::Minutes(1);

  // Flags of `init` alone.
  // Time to wait for the plan.
  absl::Duration deadline = absl::Minutes(5);

  // Flags of `run` alone.
  // Path of the unix socket for the job's reports; empty: none.
  std::string socket;
  // Folder of the journal; by default `.sidecar` on the volume, which `ReadFlags` fills in.
  std::string state_dir;
  WatchOptions watch = {.health_listen = "127.0.0.1:9481", .metrics_listen = "127.0.0.1:9482"};
  // Pause between two looks for a newer plan.
  absl::Duration look_interval = absl::Seconds(30);
  // Limit of DriftMeter, 1.001 to 1000.
  double drift_limit = 1.25;
  // Time to send what waits after the signal.
  absl::Duration drain_time = absl::Seconds(20);
};

// Reads the command line, with the program's name first, and for some flags that it lacks the
// environment (PARPLAN_SERVER, JOB_COMPLETION_INDEX, PARPLAN_EXPORT, PARPLAN_NODES). Returns the
// exit code instead of flags if it asks for help, for the version, for a completion script or for a
// check (0), or is wrong (2); then everything is printed.
std::variant<SidecarFlags, int> ReadFlags(int argc, const char* const* argv);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_SIDECAR_FLAGS_H_
