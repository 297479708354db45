#include "base/service/shell/watch_flags.h"

#include <CLI/CLI.hpp>

namespace parplan {
namespace {

// Adds an option that takes an address, or `off`.
void AddAddress(CLI::App& app, const char* group, const char* name, std::string& address,
                const char* help) {
  const auto read = [&address](const std::string& text) { address = text == "off" ? "" : text; };
  app.add_option_function<std::string>(name, read, help)->default_str(address)->group(group);
}

}  // namespace

void AddWatchFlags(CLI::App& app, const char* group, WatchOptions& watch) {
  AddAddress(app, group, "--listen", watch.health_listen,
             "HOST:PORT or unix:PATH for gRPC health, `off` for none");
  AddAddress(app, group, "--metrics-listen", watch.metrics_listen,
             "HOST:PORT for Prometheus (plain HTTP), `off` for none");
  app.add_option("--port-file", watch.health_port_file, "Write the port of --listen to this file")
      ->group(group);
  app.add_option("--metrics-port-file", watch.metrics_port_file,
                 "Write the port of --metrics-listen to this file")
      ->group(group);
}

}  // namespace parplan
