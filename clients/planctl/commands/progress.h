// Progress of a search on standard error, for anything that takes over a second.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_

#include <chrono>

#include "parplan/v1/plan_service.pb.h"

namespace parplan::planctl {

// Rewrites one line on a terminal; elsewhere prints a line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  // Ends the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const v1::SearchProgress& progress);

 private:
  const bool quiet_;
  const bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_PROGRESS_H_
