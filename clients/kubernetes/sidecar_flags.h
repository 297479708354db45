// The command line of parplan-sidecar.

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

// Plain data.
struct SidecarFlags {
  enum class Command { kInit, kRun };
  Command command = Command::kInit;
  ChannelOptions server;
  // With the trust bundle, the job and the node.
  PlanWanted wanted;
  // Where the shared volume is, and who this pod is.
  PlanFilesOptions files;
  absl::Duration call_timeout = absl::Minutes(1);

  // Of init.
  absl::Duration deadline = absl::Minutes(5);

  // Of run.
  std::string socket;
  std::string state_dir;
  WatchOptions watch = {.health_listen = "127.0.0.1:9481", .metrics_listen = "127.0.0.1:9482"};
  absl::Duration look_interval = absl::Seconds(30);
  double drift_limit = 1.25;
  absl::Duration drain_time = absl::Seconds(20);
};

// The flags; or, when the command line asks for help, the version or a check, or is wrong, what
// was printed about it and the exit code, 0 or 2.
std::variant<SidecarFlags, int> ReadFlags(int argc, const char* const* argv);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_SIDECAR_FLAGS_H_
