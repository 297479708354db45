// Settings of parplan-agent, read from flags and a configuration file. Flags take precedence.
// main.cc reads them, and once.h and daemon.h have the functions that take them.

#ifndef PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_
#define PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_

#include <string>
#include <variant>
#include <vector>

#include "profiler-agent/daemon/daemon.h"

namespace parplan {

// The settings of the agent, whichever of its modes it runs in.
struct Settings {
  // Measure once, then exit.
  bool once = false;
  // Only print the inventory, then exit; goes before `once`.
  bool inventory_only = false;
  // File for the profile of `once`; `-` is standard output. Empty without `once`.
  std::string out_path;
  // File for the topology of `once`; `-` is standard output, empty writes none.
  std::string topology_path;
  // Files of the models whose layers are measured.
  std::vector<std::string> model_paths;
  std::string cluster = "local";
  // Name of the node. The default is the host name up to its first dot, in lower case, with
  // characters replaced that node names do not allow.
  std::string node;
  // Settings of the agent as a service (`RunDaemon`); `once` uses its `request` and `measurement`.
  DaemonOptions daemon;
};

// Reads the settings, which also depend on the host name, on CUDA_VISIBLE_DEVICES, and on the
// variables of `DefaultStateFolder`. If the command line asks for help or the version, or it or the
// configuration file is wrong, the text has been printed and the exit code, 0 or 2, is returned.
// Names are not checked and model files not read yet, and `rank_count` is 0 where all devices are
// meant: call CompleteSettings (once.h).
std::variant<Settings, int> ReadSettings(int argc, const char* const* argv);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_
