// Shows the progress of a search that takes over a second on standard error. `planctl plan` shows
// one.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_

#include <chrono>

#include "parplan/v1/plan_service.pb.h"

namespace parplan::planctl {

// A line that is rewritten on a terminal at most every 200 ms; elsewhere a new line at most every 5
// s. Used by one thread.
class ProgressLine {
 public:
  // The first line is due in a second. If `quiet`, nothing is shown.
  explicit ProgressLine(bool quiet);
  // Erases the line on a terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows `progress` if the next line is due.
  void Show(const v1::SearchProgress& progress);

 private:
  const bool quiet_;
  const bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_
