// A child process that ends with its parent. `RankProcesses` starts each rank as one.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The descriptor to which a child writes its result. The agent also names it to PyTorch's probe
// (profiler-agent/measure/torch_job.cc).
inline constexpr int kResultDescriptor = 3;

// The program to run, and how.
struct ChildOptions {
  // Path of the program, which is not searched for, and its arguments. REQUIRES, unchecked: not
  // empty.
  std::vector<std::string> argv;
  // The whole environment: "NAME=value".
  std::vector<std::string> environment;
  // Processor that the child is bound to; -1: those of the calling thread.
  int core = -1;
  // Process group that it joins; 0: a new one with the child's process id.
  pid_t group = 0;
};

// A child that runs or has ended, and the ends of its pipes.
struct ChildProcess {
  pid_t pid = 0;
  // Readable once the child has ended (pidfd_open); the child stays a zombie until waitpid.
  Socket end;
  // Reading ends of its standard error and its result, which do not block.
  Socket errors;
  Socket result;
};

// Starts a child. The system kills it when the calling thread ends for any reason. It has no open
// descriptors except an empty standard input, this process's standard output, and the writing ends
// of `errors` and `result`, the latter as kResultDescriptor; no signal is blocked, and SIGINT and
// SIGTERM end it. NOT_FOUND, PERMISSION_DENIED or INTERNAL if the program cannot be run,
// FAILED_PRECONDITION if it cannot be bound to `core`, RESOURCE_EXHAUSTED or INTERNAL if no process
// can be made. Returns when the child runs the program. The caller reaps the child (waitpid).
absl::StatusOr<ChildProcess> StartChild(const ChildOptions& options);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_
