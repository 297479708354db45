// One process that ends with those who started it.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The descriptor of a child that its result goes to.
inline constexpr int kResultDescriptor = 3;

struct ChildOptions {
  // The path of a program, and its arguments.
  std::vector<std::string> argv;
  // All of it: "NAME=value".
  std::vector<std::string> environment;
  // The processor it is bound to; -1: those of this thread.
  int core = -1;
  // The group of processes it joins; 0: one of its own, that has its number.
  pid_t group = 0;
};

struct ChildProcess {
  pid_t pid = 0;
  // Readable once it has ended (pidfd_open); not reaped until someone waits for it.
  Socket end;
  // What it writes to its standard error and to its result.
  Socket errors;
  Socket result;
};

// Starts it. It is killed when the thread that calls this ends, of whatever. It has nothing
// open but an empty input, this process's output, and the two above. NOT_FOUND or
// PERMISSION_DENIED where the program cannot be run, RESOURCE_EXHAUSTED or INTERNAL where no
// process can be made.
absl::StatusOr<ChildProcess> StartChild(const ChildOptions& options);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_CHILD_PROCESS_H_
