// Where a program that stays can be watched, and the flags that say so.

#ifndef PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_
#define PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_

#include <string>

// CLI11 is headers only: seconds for all that include this one for its options.
namespace CLI {
class App;
}  // namespace CLI

namespace parplan {

// Plain data. Port 0 takes a free one.
struct WatchOptions {
  // HOST:PORT or unix:PATH for gRPC's health protocol; empty for none.
  std::string health_listen;
  // HOST:PORT for Prometheus, over plain HTTP; empty for none.
  std::string metrics_listen;
  // Files that get the ports; empty for none.
  std::string health_port_file;
  std::string metrics_port_file;
};

// Adds --listen, --metrics-listen, --port-file and --metrics-port-file to the group `group` of the
// help. What is in `watch` is told as the default; `off` gives an empty address. `watch` lives
// until the command line is parsed.
void AddWatchFlags(CLI::App& app, const char* group, WatchOptions& watch);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_WATCH_FLAGS_H_
