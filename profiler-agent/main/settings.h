// What parplan-agent is told: by flags, and by a file that they go before.

#ifndef PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_
#define PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_

#include <string>
#include <variant>
#include <vector>

#include "profiler-agent/daemon/daemon.h"

namespace parplan {

struct Settings {
  // Measure once and end.
  bool once = false;
  // Or only tell what the node is made of.
  bool inventory_only = false;
  std::string out_path;
  std::string topology_path;
  std::vector<std::string> model_paths;
  std::string cluster = "local";
  // By default the machine's name, as far as names of nodes allow it.
  std::string node;
  // As is what `once` needs.
  DaemonOptions daemon;
};

// The settings; or, when the command line asks for help or the version or is wrong, what was
// printed about it and the exit code, 0 or 2.
std::variant<Settings, int> ReadSettings(int argc, const char* const* argv);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_
