// One search in this process, under the limits of the command line. The functions of
// offline_planner.h and offline_explainer.h search with it.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "proto/wire/rules_wire.h"
#include "solve/shared_time.h"

namespace parplan::planctl {

// The listeners of a search, and its threads.
struct SearchWatch {
  // Receives the progress of the search, on the thread that called `SearchHere`. May be empty.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Ends the search with the best plan so far once it returns true. Called on any thread that
  // searches, by several at once. May be empty.
  std::function<bool()> is_cancelled;
  // Threads that search, the calling one included; less than 1 counts as 1. The answer does not
  // depend on it.
  int thread_count = 1;
  // The time that the searches of one answer share (solve/shared_time.h), instead of the limit of
  // the options for each. Not owned; null for one search.
  SharedTime* time = nullptr;
};

// A search that ended: its checked result (a plan, nothing that fits, or a stop without a plan),
// the processor time of all its threads, and wall time.
struct LocalSearch {
  // Checked by `CheckResultInTime` (planner/check/result_check.h).
  PlanningResult result;
  Seconds cpu;
  Seconds wall;
};

// Runs `planner` under the limits of `options`, whose rules and planner are not read; a search that
// `watch` cancelled says so (`SearchLimit::kCancelled`). Does not search if the shared time is
// over: the result is then `StoppedEmpty`. Returns the errors of `FindPlan`, and INTERNAL
// (CHECK_FAILED) if the result is not what the planner promised. Blocks until the search ends.
// Throws std::system_error if the system has no thread for it.
absl::StatusOr<LocalSearch> SearchHere(const PlanningProblem& problem, const std::string& planner,
                                       const PlanningOptions& options,
                                       const SearchWatch& watch = {});

// Returns DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) for a search that ended without a plan: it was
// interrupted, or a limit ended it; then it names the flags that help.
absl::Status StoppedEmptyError(const SearchSummary& search);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_
