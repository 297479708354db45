// The command line of parplan-exec. main.cc parses it, in the launcher and in each rank.

#ifndef PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_
#define PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_

#include <cstdint>
#include <string>

#include "clients/cpp/channel.h"

namespace parplan {

// The values of the flags. Negative numbers, and others that make no sense, are refused by
// `ParseFlags`.
struct ExecFlags {
  // Paths of files. The first four are required; the others may be empty: synthetic tokens, no
  // results, no second plan, links as they are.
  std::string plan;
  std::string trust;
  std::string model;
  std::string topology;
  std::string text;
  std::string results;
  std::string swap_to;
  std::string shape_links;
  // Number of ranks to launch on this machine, at most 4096; 0: another launcher starts them. The
  // launched ranks get the same command line, so a rank must look at its RankEnvironment first.
  int ranks = 0;
  // Whether each of them is bound to a core; ignored with `cuda`.
  bool pins = true;
  // `cpu` or `cuda`.
  std::string backend = "cpu";
  // Optimizer steps in all, at least 1.
  int64_t steps = 10;
  // Steps from one printed loss to the next, at least 1. That of the last step is always printed.
  int64_t log_every = 1;
  // Steps of a measured window, at least 1.
  int window_steps = 10;
  // 0: the optimizer's default, 0.001 for Adam and 0.01 for SGD.
  double learning_rate = 0.0;
  // Whether plans that were predicted for other runtimes are run too.
  bool takes_any_runtime = false;
  // Whether a node may have more ranks than GPUs.
  bool shares_devices = false;
  // Seed of the initial parameters and of the tokens.
  uint64_t seed = 1;
  // Number of steps under the first plan, from 0 on, if `swap_to` is given; the two come together.
  // `ReadInputs` refuses a number that is not below `steps`.
  int64_t swap_at = 0;
  // Job and node that the plan must be for; empty: not checked.
  std::string job_id;
  std::string node_name;
  // Folder in which times of collectives are left for the agent; empty: they are not.
  std::string spool;
  // Seconds that a collective may take; that the whole job may take if `ranks` is not 0 (0: no
  // limit); and that launched ranks have to end by themselves once one has failed.
  double operation_timeout_seconds = 300.0;
  double time_limit_seconds = 0.0;
  double grace_seconds = 15.0;
  // Server to which windows are reported; an empty target: none. The target is that of
  // ChannelOptions until `ParseFlags` clears or sets it.
  ChannelOptions server;
  bool reports() const { return !server.target.empty(); }

  // Returns whether each launched rank is bound to a core of its own. Not on GPUs, whose ranks have
  // threads of CUDA and NCCL, which one core cannot serve.
  bool PinsToCores() const { return pins && backend == "cpu"; }
  // Returns whether a rank that sees `device_count` devices has one that no other rank of its node
  // sees, `visible` being CUDA_VISIBLE_DEVICES, or null. A launcher that shows each rank one GPU,
  // as `srun --gpus-per-task=1` does, shows each its own; ranks that this program starts all see
  // the same.
  bool ShowsEachRankOneDevice(int device_count, const char* visible) const {
    return device_count == 1 && ranks == 0 && visible != nullptr;
  }
};

// Reads the command line, and for some flags variables of the environment (docs/launch.md), into
// `flags`, which hold the defaults. Returns -1 to go on, else the status to exit with: 0 if help,
// the version or a completion was printed, or 2 after an error, which was printed to standard
// error; `flags` may be filled in part then. Opens no file: `ReadInputs` reads those of the
// training, and `MakeServerSink` (clients/cpp/execution_sink.h) those of the connection to the
// server.
int ParseFlags(int argc, char** argv, ExecFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_EXEC_FLAGS_H_
