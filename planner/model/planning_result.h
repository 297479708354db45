// The inputs of a planner other than the question, and its answers.

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
  int64_t done_candidate_count = 0;
  int64_t total_candidate_count = 0;
  // The best step time so far; absent until there is a plan.
  std::optional<Seconds> incumbent;
  // Proved lower bound: no plan of the space is predicted to be faster. If batches are searched
  // too, it holds for the batch of the incumbent.
  Seconds bound;
  int64_t expanded_state_count = 0;
};

// A function that calls `work` for every index below `count`, on any threads and in any order, and
// returns when all calls are done. Several threads may call `work` at once.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& work)>;

// Limits, observers and threads of a search. They are not part of the question: two searches that
// both ran to their end give the same answer under any limits and threads.
struct SearchControl {
  // 0 stands for no limit.
  int64_t max_state_count = 0;
  // Called at least every few thousand states; true ends the search with the best plan so far and
  // `SearchLimit::kTime`, which a caller that stopped the search for another reason replaces. May
  // be empty. Every searching thread calls it, several at once if `parallel_for` has several.
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

// Returns whether `a` comes before `b` in the order of plans: less time per sample, smaller peak
// memory, smaller batch, fewer stages, fewer virtual stages, fewer micro-batches, schedule, and
// earlier strategies and boundaries layer by layer. A strict total order, up to equal plans.
bool IsBetterPlan(const PredictedPlan& a, const PredictedPlan& b);

// A plan that fits.
struct PlanFound {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Other good plans, best first, if `PlanningRules::top_plan_count` is above 1. Any two differ in
  // depth, schedule, micro-batch count, batch, or set of degrees (docs/search.md).
  std::vector<PredictedPlan> alternatives;
  // The Pareto front of time and memory from the fastest to the smallest plan if
  // `PlanningRules::wants_memory_front` is set; `plan` is the first.
  std::vector<PredictedPlan> memory_front;
  // Facts about the planner's method, one line each: the partitioner, alpha_t and alpha_m of
  // `galvatron-bmw`, nodes and bound of `min-memory-ilp`.
  std::vector<std::string> notes;
};

// No plan of the space fits. If `search.termination` is `kFeasible`, none was found, but it is not
// proved that there is none.
struct NothingFits {
  // Smallest usable memory (after headroom) and device memory (before headroom) with which the same
  // planner finds a plan, up to 1 MiB.
  Bytes smallest_usable_memory;
  Bytes smallest_device_memory;
  // Whether it is proved that less memory is not enough.
  bool memory_is_proved = true;
  // A plan that fits in `smallest_usable_memory`, if the planner kept one.
  std::optional<Plan> smallest_plan;
  // The fewest devices, in whole nodes of the same kind, with which the same planner finds a plan;
  // for every smaller number it is proved that nothing fits. Absent if up to `kMaxNodesTried` more
  // nodes are not enough, or the planner did not look.
  std::optional<int> smallest_device_count;
  SearchSummary search;
};
// Bounds the time of the answer "nothing fits": every node tried is one more search. Not measured:
// 64 more nodes of eight devices is more than a user can usually add.
inline constexpr int kMaxNodesTried = 64;

// A limit ended the search before any plan was found.
struct StoppedEmpty {
  SearchSummary search;
};

using PlanningResult = std::variant<PlanFound, NothingFits, StoppedEmpty>;

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLANNING_RESULT_H_
