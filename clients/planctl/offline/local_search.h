// One search in this process: watched, limited, on several threads, checked.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "proto/wire/rules_wire.h"

namespace parplan::planctl {

// Who watches a search, and what it may use.
struct SearchWatch {
  // Called on the thread that searches. May be empty.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Asked on any thread that searches; true ends the search with the best plan so far.
  // May be empty.
  std::function<bool()> is_cancelled;
  // At least 1. The answer does not depend on it.
  int thread_count = 1;
};

// A search and its clocks; `cpu` is of all threads.
struct LocalSearch {
  PlanningResult result;
  Seconds cpu;
  Seconds wall;
};

// Runs `planner` under the limits of `options`, whose rules and planner are not read.
// The errors of `FindPlan`, and INTERNAL (CHECK_FAILED) when the plan or one beside it is
// not what the search promised.
absl::StatusOr<LocalSearch> SearchHere(const PlanningProblem& problem, const std::string& planner,
                                       const PlanningOptions& options,
                                       const SearchWatch& watch = {});

// FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest memory that would do and, where
// the planner looked for it, the smallest number of devices.
absl::Status NothingFitsError(const PlanningProblem& problem, const std::string& planner,
                              const NothingFits& nothing);

// DEADLINE_EXCEEDED (SEARCH_TIMED_OUT), naming the flags that help.
absl::Status StoppedEmptyError(const SearchSummary& search);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_LOCAL_SEARCH_H_
