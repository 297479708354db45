// One search, as the core runs it: baselines, the planner asked, the independent
// check, and the clocks the planner has none of.

#ifndef PARPLAN_SERVER_CORE_PLAN_SEARCH_H_
#define PARPLAN_SERVER_CORE_PLAN_SEARCH_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/worker_threads.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/find_plan.h"
#include "planner/model/planning_problem.h"
#include "server/core/clock.h"
#include "server/core/observer.h"

namespace parplan {

// `FindPlan`, or a test's stand-in for it.
using PlannerFunction = std::function<absl::StatusOr<PlanningResult>(
    const PlanningProblem&, absl::string_view planner, const SearchControl&)>;

// What the planner answered, checked. Immutable; not bound to any job.
struct PlannerAnswer {
  std::variant<PlanFound, NothingFits> result;
  std::vector<v1::PlannerComparison> comparisons;
  absl::Duration cpu_duration;
  absl::Duration wall_duration;
  // No limit ended the search: the same question always gets this answer.
  bool is_complete = false;
  // Where another server searched: a plan it issued, for whomever, its signature checked.
  // `result` says nothing then.
  std::shared_ptr<const v1::Plan> issued;
};

// What a search needs besides the problem.
struct SearchOrder {
  std::string planner;
  int64_t max_state_count = 0;
  // Of the search proper, from when it begins.
  absl::Duration time_limit = absl::InfiniteDuration();
  bool compare_baselines = false;
  // For the report: how long the order waited for its turn.
  absl::Duration queue_duration;
  // Asked now and then on any thread that searches, by several at once; true ends the
  // search with the best plan so far.
  std::function<bool()> should_stop;
  // May be empty.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Null: the search has only the thread of its caller.
  WorkerThreads* helpers = nullptr;
};

// Searches and checks all that is answered (`CheckResult`), that nothing fits as well. Baselines,
// where asked for, run first, so that the time limit is all for the planner asked.
// DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) when a limit came before the first plan; INTERNAL
// (CHECK_FAILED); the planner's errors. That nothing fits is an answer.
absl::StatusOr<PlannerAnswer> RunSearch(const PlannerFunction& planner,
                                        const PlanningProblem& problem, const SearchOrder& order,
                                        const Clock& clock, Observer& observer);

// FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest memory that would do and,
// where the planner looked for it, the smallest number of devices.
absl::Status NothingFitsError(const PlanningProblem& problem, const NothingFits& nothing);

// Memory an answer holds, about.
size_t AnswerBytes(const PlannerAnswer& answer);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_SEARCH_H_
