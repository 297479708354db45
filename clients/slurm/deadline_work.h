// Work that ends in time whatever it waits for: a name server, a file system, a program.

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

// Time that runs out, by a clock that nobody sets. A value.
class Countdown {
 public:
  // Begins now.
  explicit Countdown(absl::Duration time)
      : end_(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time)) {}
  // Below zero after the end.
  absl::Duration Left() const { return absl::FromChrono(end_ - std::chrono::steady_clock::now()); }

 private:
  std::chrono::steady_clock::time_point end_;
};

// What the work says of itself.
struct WorkResult {
  int code = 0;
  std::string text;
};

// Runs `work` in a process of its own, which dies with this one, and gives its result; nothing
// where it did not end in time, and was killed with all that it had started. INTERNAL where it
// died, or cannot be started. REQUIRES: this process has one thread.
absl::StatusOr<std::optional<WorkResult>> RunWithin(absl::Duration deadline,
                                                    const std::function<WorkResult()>& work);

// The standard output of a program, at most 16 MiB; its standard error is dropped. The first
// argument is its path. UNAVAILABLE where it fails.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& arguments);

}  // namespace parplan::slurm

#endif  // PARPLAN_CLIENTS_SLURM_DEADLINE_WORK_H_
