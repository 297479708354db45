// The planners, behind one function.

#ifndef PARPLAN_PLANNER_SEARCH_FIND_PLAN_H_
#define PARPLAN_PLANNER_SEARCH_FIND_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/base/units.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/search_summary.h"

namespace parplan {

// Where a search stands.
struct SearchProgress {
  int64_t done_candidate_count = 0;
  int64_t total_candidate_count = 0;
  // The best step time so far; absent until there is a plan.
  std::optional<Seconds> incumbent;
  // Proved: no plan of the space is predicted to be faster.
  Seconds bound;
  int64_t expanded_state_count = 0;
};

// What may end a search early, and who watches it. Not part of the question:
// two searches that both ran to their end give the same answer whatever the
// limits were.
struct SearchControl {
  // 0: no limit.
  int64_t max_state_count = 0;
  // Asked at least every few thousand states; true ends the search with the
  // best plan so far. May be empty. Called on the searching thread.
  std::function<bool()> should_stop;
  // Why `should_stop` said so: the limit that is reported.
  bool stop_means_cancelled = false;
  // Called after every candidate. May be empty.
  std::function<void(const SearchProgress&)> on_progress;
};

// A plan that fits.
struct PlanFound {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
};

// No plan of the space fits.
struct NothingFits {
  // Usable memory (after headroom) and device memory (before) with which the
  // same planner finds a plan; smallest up to 1 MiB.
  Bytes smallest_usable_memory;
  Bytes smallest_device_memory;
  SearchSummary search;
};

// A limit ended the search before any plan was found.
struct StoppedEmpty {
  SearchSummary search;
};

using PlanningResult = std::variant<PlanFound, NothingFits, StoppedEmpty>;

// Names for `FindPlan`: the default first, then the other planners, then the
// baselines, each described in docs/search.md.
const std::vector<std::string>& PlannerNames();

// The names among them that are pure or fixed combinations of paradigms, in
// the same order: `dp`, `sdp`, `tp`, `pp`, `dp+tp`, `dp+pp`, `deepspeed-3d`.
const std::vector<std::string>& BaselineNames();

// Answers `problem` with the planner named. Deterministic: the same problem
// gives the same plan and the same counts unless a limit of time ended it.
//
// INVALID_ARGUMENT (SPEC_INVALID) for an unknown planner, naming those there
// are; FAILED_PRECONDITION (PROFILE_MISSING) from the cost model;
// FAILED_PRECONDITION (NO_FEASIBLE_PLAN) when, whatever the memory, no degrees
// of the planner divide devices, heads and batch under the rules.
absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_FIND_PLAN_H_
