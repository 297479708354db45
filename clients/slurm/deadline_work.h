// Runs work under a time limit, whatever it waits for: a name server, a file system, a program. The
// hooks that planctl has for Slurm run their work by it, and the work on the controller calls
// Slurm's programs by it.

#ifndef PARPLAN_CLIENTS_SLURM_DEADLINE_WORK_H_
#define PARPLAN_CLIENTS_SLURM_DEADLINE_WORK_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace parplan::slurm {

// The time left until an end, by the monotonic clock. A value.
class Countdown {
 public:
  // Starts now. REQUIRES, unchecked: `time` is finite.
  explicit Countdown(absl::Duration time)
      : end_(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time)) {}
  // Returns the time left; below zero after the end.
  absl::Duration Left() const { return absl::FromChrono(end_ - std::chrono::steady_clock::now()); }

 private:
  std::chrono::steady_clock::time_point end_;
};

// The result of the work, in the worker's own terms. Code and text together have at most about 16
// MiB; the rest of the text is cut.
struct WorkResult {
  int code = 0;
  std::string text;
};

// Runs `work` in a child process, which is killed when this one ends, and returns its result; or
// nothing if it did not end within `deadline`. In both cases the child is killed with the processes
// that it has started, unless they made a process group of their own. What `work` changes in memory
// is lost with the child. Blocks for at most `deadline` and the half second that a killed child may
// need to end; a `deadline` of 0 or below leaves the work no time. INTERNAL with no `Reason` if the
// child died or can't be started. REQUIRES, unchecked: this process has one thread; `deadline` is
// finite.
absl::StatusOr<std::optional<WorkResult>> RunWithin(absl::Duration deadline,
                                                    const std::function<WorkResult()>& work);

// Runs a program with an empty standard input and returns its standard output, at most 16 MiB; its
// standard error is dropped. The first of `arguments`, at least one, is its path, for which PATH is
// not searched. It has the environment of this process. Waits without a limit. UNAVAILABLE if it
// can't be started, ends with another code than 0 or by a signal, or prints more; INTERNAL if no
// pipe can be made. No error has a reason.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& arguments);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_DEADLINE_WORK_H_
