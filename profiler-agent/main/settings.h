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
  // File for the topology of `once`; `-` is standard output, empty writes none. Empty without
  // `once`.
  std::string topology_path;
  // Files of the models whose layers are measured.
  std::vector<std::string> model_paths;
  std::string cluster = "local";
  // Name of the node. The default is the host name up to its first dot, in lower case, with
  // characters replaced that node names do not allow; `node` if nothing is left of it.
  std::string node;
  // Settings of the agent as a service (`RunDaemon`); `once` uses its `request` and `measurement`.
  DaemonOptions daemon;
};

// Reads the settings, which also depend on the host name, on CUDA_VISIBLE_DEVICES, and on the
// variables of `DefaultStateFolder`; without these the state is in /var/lib/parplan-agent. If the
// command line asks for help, the version or a completion script, the text has been printed to
// standard output and the exit code 0 is returned; if it or the configuration file is wrong, to
// standard error, and 2. Of a flag given twice the last one counts, except for lists.
//
// Flags are checked by themselves and against one another: `once` has an `out_path`, link nodes are
// at least two with this node first, and PyTorch has one model for each of `model_paths` and no
// link nodes. Names are not checked and model files not read yet, and `daemon.request.rank_count`
// is 0 where all devices are meant: call CompleteSettings (once.h).
std::variant<Settings, int> ReadSettings(int argc, const char* const* argv);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MAIN_SETTINGS_H_
