// How a long-running program can be monitored, and the flags of that. The agent and the sidecar
// have them.

#ifndef PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_
#define PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_

#include <string>

#include "base/service/shell/command_line.h"

namespace parplan {

// Addresses of the health service and the metrics, where port 0 takes a free one, and the log.
struct WatchOptions {
  // HOST:PORT or unix:PATH for gRPC's health protocol; empty for none.
  std::string health_listen;
  // HOST:PORT for Prometheus, over plain HTTP; empty for none.
  std::string metrics_listen;
  // Files to which the caller writes the ports (port_file.h); empty for none.
  std::string health_port_file;
  std::string metrics_port_file;
  // The least level of the log: a word of `LogLevelOf` (service_log.h).
  std::string log_level = "info";
};

// Adds --listen, --metrics-listen, --port-file, --metrics-port-file and --log-level to the group
// `group` of the help. The help shows the values of `watch` as defaults; `off` gives an empty
// address. `watch` must live until the command line is parsed. Whether an address can be listened
// on is not checked here.
void AddWatchFlags(shell::Command command, const char* group, WatchOptions& watch);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_
