// The inputs of a planner other than the question, and its answers. `solve/run_search.h` calls
// planners with them under a clock and on threads; `CheckResult` (planner/check/result_check.h)
// checks the answers.

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

// The state of a running search.
struct SearchProgress {
  // Candidates searched so far, and those there are. A candidate of `exact` is all plans of one
  // batch size, pipeline degree, number of micro-batches and schedule; other planners divide their
  // spaces otherwise.
  int64_t done_candidate_count = 0;
  int64_t total_candidate_count = 0;
  // The step time of the best plan so far; for the planners that minimise memory, the shortest of
  // any plan that fits so far. Absent until there is a plan.
  std::optional<Seconds> incumbent;
  // Proved lower bound (`SearchSummary::bound`), so far. If batches are searched too, it holds for
  // the batch of the incumbent.
  Seconds bound;
  // Partial plans that were extended so far.
  int64_t expanded_state_count = 0;
};

// A function that calls `work` for every index below `count`, on any threads and in any order, and
// returns when all calls are done. Several threads may call `work` at once.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& work)>;

// The largest `SearchControl::effort`. The limits of `exact` are below 2^24, so that products stay
// far within 64 bits, and a search with all of it would take months.
inline constexpr int64_t kMaxEffort = int64_t{1} << 20;

// Limits, observers and threads of a search. They are not part of the question: two searches with
// the same `effort` and `wanted_gap_ratio` give the same answer, whatever their other limits and
// threads, if no other limit ended them (`IsComplete`, solve/run_search.h).
struct SearchControl {
  // The search ends after about this many states (`SearchSummary::expanded_state_count`). 0 stands
  // for no limit.
  int64_t max_state_count = 0;
  // Planners limit some of their own parts (states of a proof, plans simulated) so that one hard
  // part does not delay all others. `effort`, from 1 to `kMaxEffort`, multiplies these limits.
  int64_t effort = 1;
  // The gap (`SearchSummary::gap_ratio`), from 0 to 1, at which `exact` may end
  // (`SearchLimit::kGap`). While its gap is larger, it searches what is left open again with twice
  // the effort, until another limit ends it or the effort is `kMaxEffort`; that makes neither the
  // plan nor the bound worse. If absent, it looks for a proof in one round. Other planners ignore
  // it.
  std::optional<double> wanted_gap_ratio;
  // Called at least every few thousand states. If it returns true, the search ends with the best
  // plan so far and `SearchLimit::kTime`; a caller with another reason to stop, such as a client
  // that went away, replaces that value in the result. May be empty. Every searching thread calls
  // it, several at once if `parallel_for` has several.
  std::function<bool()> should_stop;
  // Called during the search on the thread that called the planner. May be empty.
  std::function<void(const SearchProgress&)> on_progress;
  // If empty, everything runs on the calling thread.
  ParallelFor parallel_for;
};

// A plan with its prediction.
struct PredictedPlan {
  Plan plan;
  Prediction prediction;

  // The step time divided by the global batch size: what plans of any batch size are compared by.
  Seconds time_per_sample() const {
    return prediction.step / static_cast<double>(plan.global_batch_size);
  }
};

// Returns whether `a` comes before `b` in the order of plans: less time per sample, then smaller
// peak memory, smaller batch, smaller pipeline degree, fewer virtual stages, fewer micro-batches,
// the schedule with the smaller enumerator, the smaller `micro_batch_group_size`, and the first
// layer whose strategy or stage differs, by the order of `Strategy` and then of stages. A strict
// total order, up to equal plans.
bool IsBetterPlan(const PredictedPlan& a, const PredictedPlan& b);

// A plan that fits.
struct PlanFound {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Other good plans if `PlanningRules::top_plan_count` is above 1, in the planner's order: by
  // `IsBetterPlan`, or, for planners that minimise memory, by peak memory or by its sum with the
  // weighted time. Those of `exact` differ from each other and from `plan` in pipeline degree,
  // virtual stages, schedule, micro-batch count, batch, or the set of the strategies of layers
  // (docs/search.md). Those of other planners are only unequal.
  std::vector<PredictedPlan> alternatives;
  // The Pareto front of time and memory from the fastest to the smallest plan if
  // `PlanningRules::wants_memory_front` is set; `plan` is the first.
  std::vector<PredictedPlan> memory_front;
  // Facts about the planner's method, one line each: for example the partitioner, alpha_t and
  // alpha_m of `galvatron-bmw`, nodes and bound of `min-memory-ilp`.
  std::vector<std::string> notes;
};

// The search ran to its end and found no plan that fits. It is proved that the planner's method
// covers none that does if `search.termination` is `kOptimal`: for `exact` that is every plan of
// the space. Otherwise nothing is proved.
struct NothingFits {
  // Usable memory (after headroom) and device memory (before headroom) with which the same planner
  // finds a plan: the smallest, exact to 1 MiB, if `memory_is_proved`, else only enough.
  Bytes smallest_usable_memory;
  Bytes smallest_device_memory;
  // Whether it is proved that less memory is not enough.
  bool memory_is_proved = true;
  // A plan that fits in `smallest_usable_memory`, if the planner kept one.
  std::optional<Plan> smallest_plan;
  // The fewest devices, in whole nodes of the same kind, with which the same planner finds a plan,
  // which may be fewer than the problem has, because other numbers divide otherwise; for every
  // smaller number it is proved that nothing fits. Absent if up to `kMaxNodesTried` more nodes are
  // not enough, if a limit or missing measurements ended the search for it, or if the planner did
  // not look.
  std::optional<int> smallest_device_count;
  SearchSummary search;
};
// Bounds the time of the answer "nothing fits": every node tried is one more search. Not measured:
// 64 more nodes of eight devices is more than a user can usually add.
inline constexpr int kMaxNodesTried = 64;

// A limit ended the search before any plan was found; `search.limit` names it.
struct StoppedEmpty {
  SearchSummary search;
};

using PlanningResult = std::variant<PlanFound, NothingFits, StoppedEmpty>;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLANNING_RESULT_H_
