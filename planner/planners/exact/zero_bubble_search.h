// The search of plans with split backward passes (ZB-H1). `SearchExact` runs it after all other
// plans have been searched, so that its plans are only added to theirs.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; a meter counts states and says when a search must end.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_SEARCH_H_

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Offers plans of ZB-H1 to `plans`, whose plans at the call count as found.
//
// Every candidate has the bound of zero_bubble_bound.h, which ignores memory. Those that may have a
// plan better by more than the share `gap_ratio` than the last one of `plans` are searched as
// candidates of 1F1B with whole backward passes are, the one of the least bound first: that search
// finds partitions and strategies, and each of its plans is judged by its step under ZB-H1. It
// proves nothing about ZB-H1 unless it proves that nothing fits. So candidates keep their bounds,
// and answers that need them have a gap.
//
// Returns a lower bound, in seconds per sample, of all such plans that were left open: infinite if
// the space has none (`zero-bubble`, or a schedule that the rules give), 0 if `meter` stopped
// before every candidate had a bound. Ends at limits of its own, which grow with `meter.effort()`
// and do not stop `meter`. It runs on the calling thread. `costs` are those of `problem`, which is
// not checked.
Seconds SearchZeroBubble(const PlanningProblem& problem, const CostModel& costs, double gap_ratio,
                         PlanList& plans, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_ZERO_BUBBLE_SEARCH_H_
