// One search of the server: first the planner that the question names, then the baselines if the
// question compares them, each reported to the observer. `PlanCore` and `ShapeCore` call it on a
// thread of the pool.

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
  // Processor and wall time of the planner of the question, without the baselines.
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
  // Whether no limit ended the search or one of a baseline, so that the same question always gets
  // this answer.
  bool is_complete = false;
};

// The planner, the limits and the listeners of one search of the server.
struct SearchOrder {
  // A name of `PlannerNames()`.
  std::string planner;
  // Expanded states of each search, those of the baselines too; 0 for no limit.
  int64_t max_state_count = 0;
  // See `SearchControl::wanted_gap_ratio`.
  std::optional<double> wanted_gap_ratio;
  // Wall time of the whole order, comparisons included, from when it begins.
  absl::Duration time_limit = absl::InfiniteDuration();
  // The alternatives of the robust plan (`WithRobustPlan`), if that is wanted.
  std::optional<int> robust_alternative_count;
  // Whether to run the baselines too.
  bool compare_baselines = false;
  // How long the order waited for its turn; only reported to the observer.
  absl::Duration queue_duration;
  // Ends the search with the best plan so far once it returns true, and those of the baselines too.
  // Called on any thread that searches, by several at once. May be empty.
  std::function<bool()> should_stop;
  // Receives the progress of the planner asked, not of the baselines. May be empty.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Threads that search beside the calling one; null for none.
  WorkerThreads* helpers = nullptr;
};

// Runs the planner of the order, then the baselines if the order compares them
// (`CompareWithBaselines`), and reports every search to `observer`. The planner of the order may
// take all of `time_limit`, each baseline what is left. A baseline for which no time is left has a
// row that says so, and the answer is then not complete. No baseline runs if the planner found no
// plan. Blocks until all searches have ended.
//
// A search whose thread has a `MemoryAccount` ends with the best plan so far once that is used up,
// as by `should_stop`; the plan then has a note of it, and the limit `kMemory`.
//
// The plan, checked and compared, then makes place for the robust one if that is wanted.
//
// Every result is checked (`RunSearch`), "nothing fits" as well, which is an answer and no error.
// Never returns an `IssuedPlan`. Returns DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) if a limit or
// `should_stop` came before the first plan; RESOURCE_EXHAUSTED (SEARCH_OUT_OF_MEMORY) if the end of
// the memory did; INTERNAL (CHECK_FAILED) if the check refused a result; the errors of `planner`
// (for `FindPlan` INVALID_ARGUMENT and FAILED_PRECONDITION with PROFILE_MISSING or
// NO_FEASIBLE_PLAN). CHECK_FAILED or an error of `planner` in a baseline fails the order too,
// except NO_FEASIBLE_PLAN: its row then has a name alone.
absl::StatusOr<PlannerAnswer> ExecuteOrder(const PlannerFunction& planner,
                                           const PlanningProblem& problem, const SearchOrder& order,
                                           const Clock& clock, Observer& observer);

// Returns the memory that an answer holds, in bytes, roughly.
size_t AnswerBytes(const PlannerAnswer& answer);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_SEARCH_H_
