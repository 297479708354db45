// How a search ended, and its counts. A `PlanningResult` has one. `SearchSummary` in
// proto/parplan/v1/plan.proto has these fields, and running times beside them.

#ifndef PARPLAN_PLANNER_MODEL_SEARCH_SUMMARY_H_
#define PARPLAN_PLANNER_MODEL_SEARCH_SUMMARY_H_

#include <cstdint>

#include "base/units.h"

namespace parplan {

// Whether the answer is proved for all plans that the planner's method covers, which are those of
// the space for `exact`. The numbers are those of proto/parplan/v1/plan.proto. `kOptimal`: none of
// these plans is better, or, without a plan, none of them fits. `kFeasible`: anything else.
enum class Termination { kOptimal = 1, kFeasible = 2 };
// The reason why a search ended without a proof; `kNone` if it has one. `kTime`: the time limit or
// the deadline of the call. `kStates`: `SearchControl::max_state_count`. `kCancelled`: the caller
// gave up. `kMethod`: it ran to its end, but its method proves nothing more. `kGap`: its gap is no
// larger than wanted. `kMemory`: the server gave it no more; planners never say so.
enum class SearchLimit {
  kNone = 0,
  kTime = 1,
  kStates = 2,
  kCancelled = 3,
  kMethod = 4,
  kGap = 5,
  kMemory = 6,
};

// The outcome of a search. It has no running times, because planners have no clock; callers measure
// them.
struct SearchSummary {
  Termination termination = Termination::kFeasible;
  SearchLimit limit = SearchLimit::kMethod;
  // Proved lower bound on the predicted step time of every plan that the planner's method covers,
  // with the batch of the answer; 0 if nothing is proved.
  Seconds bound;
  // (step - bound) / step, in [0, 1]. Without a plan it says nothing.
  double gap_ratio = 1.0;
  // Partial plans that were extended, and those that were discarded. Equal questions give equal
  // counts on any number of threads, unless a limit of time ended the search.
  int64_t expanded_state_count = 0;
  int64_t pruned_state_count = 0;
  // Candidates (`SearchProgress`) that the planner listed, whether or not it came to each. `exact`
  // leaves out those of unlisted partitions and of larger micro-batch groups.
  int64_t candidate_count = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_SEARCH_SUMMARY_H_
