// Runs the searches that answer one question: first the planner that the question names, then the
// baselines if the question compares them, each reported to the observer. `PlanCore` and
// `ShapeCore` call `ExecuteOrder` on a thread of `SearchPool`.

#ifndef PARPLAN_SERVER_CORE_PLAN_SEARCH_H_
#define PARPLAN_SERVER_CORE_PLAN_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "base/system/worker_threads.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "server/core/observer.h"
#include "solve/run_search.h"

namespace parplan {

// A plan that this server's planner found, and what it took.
struct SearchedPlan {
  PlanFound found;
  // One row for each planner compared, that of the question included; empty unless the order
  // compares the baselines.
  std::vector<v1::PlannerComparison> comparisons;
  // Processor time (that of helpers included) and wall time of the planner of the question, without
  // the check of its result and without the baselines.
  absl::Duration cpu_duration;
  absl::Duration wall_duration;
};

// A plan that a server on the same store issued before, for any job, its signature checked. Not
// null.
struct IssuedPlan {
  std::shared_ptr<const v1::Plan> plan;
};

// An answer to a question, whoever asks: checked, and not bound to a job. Never changes.
struct PlannerAnswer {
  std::variant<SearchedPlan, NothingFits, IssuedPlan> result;
  // Whether the same question always gets this answer: neither time, states, `should_stop` nor
  // memory ended the search or that of a baseline, and every alternative was checked. A search that
  // ended at `wanted_gap_ratio` is complete.
  bool is_complete = false;
};

// The planner, the limits and the listeners of one call of `ExecuteOrder`.
struct SearchOrder {
  // A name of `PlannerNames()` (planner/find_plan.h).
  std::string planner;
  // The most states that each search expands, those of the baselines too; 0 for no limit.
  int64_t max_state_count = 0;
  // See `SearchControl::wanted_gap_ratio`.
  std::optional<double> wanted_gap_ratio;
  // Wall time from the call of `ExecuteOrder` for all its searches, those of the baselines too.
  absl::Duration time_limit = absl::InfiniteDuration();
  // Number of alternatives that the robust plan keeps (`WithRobustPlan`), at least 0. Absent if no
  // robust plan is wanted.
  std::optional<int> robust_alternative_count;
  // Whether to run the baselines too.
  bool compare_baselines = false;
  // How long the order waited for its turn; only reported to the observer.
  absl::Duration queue_duration;
  // Ends the running search with its best plan so far once it returns true, and each search of a
  // baseline after it. Called on any thread that searches, by several at once. May be empty.
  std::function<bool()> should_stop;
  // Receives the progress of the planner of the question, not of the baselines, on the thread that
  // called `ExecuteOrder`. May be empty.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Threads that search beside the calling one; not owned, and used during the call alone. Null for
  // none.
  WorkerThreads* helpers = nullptr;
};

// Runs `order.planner`, then the baselines if `order` compares them (`CompareWithBaselines`), and
// reports every search to `observer`, on the calling thread. `planner` runs all of them, each by
// its name: it is `FindPlan`, or a stand-in in tests. `order.planner` may take all of `time_limit`,
// each baseline what is left. A baseline for which no time is left has a row that says so, and the
// answer is then not complete. No baseline runs if `order.planner` found no plan. Blocks until all
// searches have ended.
//
// If the calling thread has a `MemoryAccount` (base/system/memory_account.h), a search ends with
// its best plan so far once that is used up, as by `should_stop`. The plan of `order.planner` then
// has a note that says so, and the limit `kMemory`.
//
// If a robust plan is wanted, it replaces the plan after that was checked and compared.
//
// Every result is checked (`RunSearch`), "nothing fits" as well, which is an answer and no error.
// Never returns an `IssuedPlan`. Returns DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) if a limit or
// `should_stop` ended the search before its first plan, or its method ended without one;
// RESOURCE_EXHAUSTED (SEARCH_OUT_OF_MEMORY) if the memory was used up before, or if a search took
// so much between two questions that `operator new` refused it (its best plan is lost then);
// INTERNAL (CHECK_FAILED) if the check refused a result; and the errors of `planner` (for
// `FindPlan` INVALID_ARGUMENT and FAILED_PRECONDITION with PROFILE_MISSING or NO_FEASIBLE_PLAN).
// CHECK_FAILED or an error of `planner` for a baseline is returned too, except NO_FEASIBLE_PLAN:
// the row of that baseline then has only its name.
absl::StatusOr<PlannerAnswer> ExecuteOrder(const PlannerFunction& planner,
                                           const PlanningProblem& problem, const SearchOrder& order,
                                           const Clock& clock, Observer& observer);

// Returns the memory that an answer holds, in bytes, roughly.
size_t AnswerBytes(const PlannerAnswer& answer);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_SEARCH_H_
