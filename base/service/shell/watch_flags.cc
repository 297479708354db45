#include "base/service/shell/watch_flags.h"

namespace parplan {
namespace {

// An address, or `off`.
void AddAddress(shell::Command command, const char* group, const char* name, std::string& address,
                const char* help) {
  const auto read = [&address](const std::string& text) {
    address = text == "off" ? "" : text;
    return std::string();
  };
  command.AddTextOption(name, read, help).ShowDefault(address).Group(group);
}

}  // namespace

void AddWatchFlags(shell::Command command, const char* group, WatchOptions& watch) {
  AddAddress(command, group, "--listen", watch.health_listen,
             "HOST:PORT or unix:PATH for gRPC health, `off` for none");
  AddAddress(command, group, "--metrics-listen", watch.metrics_listen,
             "HOST:PORT for Prometheus (plain HTTP), `off` for none");
  command
      .AddOption("--port-file", watch.health_port_file, "Write the port of --listen to this file")
      .Group(group);
  command
      .AddOption("--metrics-port-file", watch.metrics_port_file,
                 "Write the port of --metrics-listen to this file")
      .Group(group);
  command
      .AddOption("--log-level", watch.log_level,
                 "Least level of the log: trace, debug, info, warning, error or off")
      .Check(shell::OneOf({"trace", "debug", "info", "warning", "error", "off"}))
      .ShowDefault(watch.log_level)
      .Group(group);
}

}  // namespace parplan
