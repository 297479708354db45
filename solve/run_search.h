// Runs one search under a clock, limits and threads, and checks its result.
//
// The planner reads no clock and starts no threads (ARCHITECTURE.md). The server and offline
// planning of planctl get them here:
//
//   WorkerThreads helpers(3);
//   SearchLimits limits;
//   limits.time_limit = absl::Seconds(30);
//   SearchSetup setup;
//   setup.helpers = &helpers;
//   const FinishedSearch search =
//       RunSearch(&FindPlan, problem, "exact", limits, setup, Clock::Real());
//   if (!search.result.ok()) return search.result.status();
//   if (const auto* found = std::get_if<PlanFound>(&*search.result)) Use(found->plan);

#ifndef PARPLAN_SOLVE_RUN_SEARCH_H_
#define PARPLAN_SOLVE_RUN_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "base/system/worker_threads.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// `FindPlan`, or a stand-in in tests.
using PlannerFunction = std::function<absl::StatusOr<PlanningResult>(
    const PlanningProblem&, absl::string_view planner, const SearchControl&)>;

// The limits of one search. Whichever is reached first ends the search with the best plan so far.
struct SearchLimits {
  // Wall time from the call of `RunSearch`, the check of the result included. A value of 0 or below
  // ends the search at its first look at the clock. The search ends when as much of it is left as
  // the planner took before that look, at most a quarter, which is for the check of the plan; if
  // several plans are wanted, when at least a tenth is left, for the checks of the others.
  absl::Duration time_limit = absl::InfiniteDuration();
  // States expanded, after about which the search ends; 0 means no limit.
  int64_t max_state_count = 0;
  // The gap, from 0 to 1, at which `exact` may end (`SearchControl::wanted_gap_ratio`); if absent,
  // it looks for a proof in one round. Other planners ignore it.
  std::optional<double> wanted_gap_ratio;
};

// The threads of a search and its listeners. Each function may be empty.
struct SearchSetup {
  // Ends the search as the time limit does once it returns true. Called often, on every thread that
  // searches, by several at once.
  std::function<bool()> should_stop;
  // Receives the state of the search now and then, on the thread that called `RunSearch`, which
  // waits for it. Before a first plan its gap is 1 and it has no incumbent.
  std::function<void(const v1::SearchProgress&)> on_progress;
  // Threads that search beside the calling one; not owned, and used during the call alone. Null for
  // none. The result does not depend on them.
  WorkerThreads* helpers = nullptr;
};

// A search that ended, and what it took.
struct FinishedSearch {
  // The checked result. Otherwise the error of the planner (for `FindPlan` INVALID_ARGUMENT for an
  // unknown name or rules it lacks, FAILED_PRECONDITION (PROFILE_MISSING) for missing measurements
  // or (NO_FEASIBLE_PLAN), see `HasNoCandidates`), or INTERNAL (CHECK_FAILED) if
  // `CheckResultInTime` found that the result is not what the planner promised.
  absl::StatusOr<PlanningResult> result;
  // Whether the planner gave a result that `CheckResultInTime` refused.
  bool check_failed = false;
  // Alternatives and points of the front that were left out because the time was over before they
  // were checked. With some, another search may have another result, whatever `IsComplete` says.
  int left_out_plan_count = 0;
  // States expanded; 0 if the planner gave no result.
  int64_t expanded_state_count = 0;
  // Processor time of the calling thread and its helpers, and wall time, both without the check.
  absl::Duration cpu = absl::ZeroDuration();
  absl::Duration wall = absl::ZeroDuration();
};

// Runs `planner_name` on `problem` through `planner`, then checks whatever it answered: a plan with
// its alternatives, and "nothing fits" as well. Blocks until the search ends. Safe to call from
// several threads at once, also with the same helpers. `planner` must not be empty; every thread
// that searches reads `clock`.
FinishedSearch RunSearch(const PlannerFunction& planner, const PlanningProblem& problem,
                         const std::string& planner_name, const SearchLimits& limits,
                         const SearchSetup& setup, const Clock& clock);

// Returns how the search behind `result` went, whatever its outcome. The reference is to a part of
// `result`.
const SearchSummary& SummaryOf(const PlanningResult& result);

// Returns whether neither the time, the states, the caller nor a lack of memory ended the search:
// the same problem and `wanted_gap_ratio` then always get the same result. True for a gap that was
// reached (`SearchLimit::kGap`).
bool IsComplete(const SearchSummary& summary);

// Returns FAILED_PRECONDITION (NO_FEASIBLE_PLAN) with the smallest device memory that would suffice
// and, if the planner proved it, the smallest number of such devices. Both are in the metadata too,
// memory in bytes: `smallestDeviceMemoryBytes`, `usableMemoryBytes` (what a device of `problem`
// has), `memoryIsProved` (`true` or `false`: whether less memory is proved not to do),
// `smallestDeviceCount` (absent if it is not known).
absl::Status NothingFitsError(const PlanningProblem& problem, absl::string_view planner_name,
                              const NothingFits& nothing);

// Returns DEADLINE_EXCEEDED (SEARCH_TIMED_OUT) for a search that its own method ended without a
// plan
// (`SearchLimit::kMethod`): more time does not help, another question may.
absl::Status MethodEndedError();

// Returns whether `status` says that the planner has no plan of its kind for these devices, heads
// and batch, whatever the memory (pure tensor parallelism over more devices than heads). To be
// asked of a planner's own error (`FinishedSearch::result`): it is true of every NO_FEASIBLE_PLAN,
// that of `NothingFitsError` included.
bool HasNoCandidates(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_SOLVE_RUN_SEARCH_H_
