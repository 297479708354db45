// The command line of parplan-exec.

#ifndef PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_
#define PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_

#include <cstdint>
#include <string>

#include "clients/cpp/channel.h"

namespace parplan {

struct ExecFlags {
  // Files.
  std::string plan;
  std::string trust;
  std::string model;
  std::string topology;
  std::string text;
  std::string results;
  std::string swap_to;
  std::string shape_links;
  // Ranks to launch on this machine; 0: another launcher does.
  int ranks = 0;
  // Each bound to a core.
  bool pins = true;
  std::string backend = "cpu";
  int64_t steps = 10;
  int64_t log_every = 1;
  int window_steps = 10;
  // 0: that of the optimizer's default.
  double learning_rate = 0.0;
  // Plans that were predicted for other programs are run, too.
  bool takes_any_runtime = false;
  // More ranks of a node than it has GPUs.
  bool shares_devices = false;
  uint64_t seed = 1;
  // Step before which the other plan takes over.
  int64_t swap_at = 0;
  // Empty fields are not checked.
  std::string job_id;
  std::string node_name;
  // Where collectives are left for the agent; empty: nowhere.
  std::string spool;
  double operation_timeout_seconds = 300.0;
  double time_limit_seconds = 0.0;
  double grace_seconds = 15.0;
  // Where windows are reported; empty: nowhere.
  ChannelOptions server;
  bool reports() const { return !server.target.empty(); }
};

// Reads them. Gives -1 to go on, else the status to exit with: help and version were printed,
// or what is wrong.
int ParseFlags(int argc, char** argv, ExecFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_
