// What a planner is given besides the question, and what it answers.

#ifndef PARPLAN_PLANNER_MODEL_PLANNING_RESULT_H_
#define PARPLAN_PLANNER_MODEL_PLANNING_RESULT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "planner/model/plan.h"
#include "planner/model/search_summary.h"

namespace parplan {

// Where a search stands.
struct SearchProgress {
  int64_t done_candidate_count = 0;
  int64_t total_candidate_count = 0;
  // The best step time so far; absent until there is a plan.
  std::optional<Seconds> incumbent;
  // Proved: no plan of the space is predicted to be faster. Of the batch of the
  // incumbent, where batches are searched too.
  Seconds bound;
  int64_t expanded_state_count = 0;
};

// Calls `work` for every index below `count`, on any threads, in any order, and returns
// when all are done. `work` is safe to call from several threads at once.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& work)>;

// What may end a search early, who watches it, and what it may use. Not part of the
// question: two searches that both ran to their end give the same answer whatever the
// limits and threads were.
struct SearchControl {
  // 0: no limit.
  int64_t max_state_count = 0;
  // Asked at least every few thousand states; true ends the search with the best plan so
  // far. May be empty. Called on any thread that searches, by several at once where
  // `parallel_for` has several.
  std::function<bool()> should_stop;
  // Why `should_stop` said so: the limit that is reported.
  bool stop_means_cancelled = false;
  // Called as the search goes on, on the thread that called the planner. May be empty.
  std::function<void(const SearchProgress&)> on_progress;
  // Empty: everything on the calling thread.
  ParallelFor parallel_for;
};

// A plan with its prediction.
struct PredictedPlan {
  Plan plan;
  Prediction prediction;
};

// The order of plans: less time a sample, smaller peak memory, smaller batch, fewer
// stages, fewer virtual stages, fewer micro-batches, then schedule, and earlier
// strategies and boundaries layer by layer. Total and strict but for equal plans.
bool IsBetterPlan(const PredictedPlan& a, const PredictedPlan& b);

// A plan that fits.
struct PlanFound {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // With `PlanningRules::top_plan_count` above 1: other good plans, best first. Each
  // is distinct: another depth, schedule, micro-batch count, batch, or another set of
  // degrees (see docs/search.md).
  std::vector<PredictedPlan> alternatives;
  // With `PlanningRules::wants_memory_front`: plans of which none is both faster and
  // smaller than another, from the fastest to the smallest; `plan` is the first.
  std::vector<PredictedPlan> memory_front;
  // Facts of the planner's method as one line each, for people: alpha_t and alpha_m of
  // `galvatron-bmw` before and after, nodes and bound of `min-memory-ilp`.
  std::vector<std::string> notes;
};

// No plan of the space fits; where `search.termination` is `kFeasible`, none was found,
// though it is not proved that there is none.
struct NothingFits {
  // Usable memory (after headroom) and device memory (before) with which the same
  // planner finds a plan; smallest up to 1 MiB.
  Bytes smallest_usable_memory;
  Bytes smallest_device_memory;
  // Whether it is proved that less does not do.
  bool memory_is_proved = true;
  // A plan that fits in `smallest_usable_memory`, where the planner kept it.
  std::optional<Plan> smallest_plan;
  // The fewest devices, in whole nodes of the same kind, with which the same planner
  // finds a plan; with every smaller number it was proved that nothing fits. Absent when
  // none up to `kMostNodesTried` nodes more do, or the planner did not look.
  std::optional<int> smallest_device_count;
  SearchSummary search;
};
inline constexpr int kMostNodesTried = 64;

// A limit ended the search before any plan was found.
struct StoppedEmpty {
  SearchSummary search;
};

using PlanningResult = std::variant<PlanFound, NothingFits, StoppedEmpty>;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLANNING_RESULT_H_
