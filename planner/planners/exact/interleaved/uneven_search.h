// Interleaved plans whose partitions are too many to list.
//
// A bound over all partitions (uneven_bound.h) orders the strategies of the definition with most
// layers and the numbers of virtual stages (uneven_leaves.h). For the most promising, partitions of
// about equal loads are simulated and improved by moving layers between virtual stages. The bound
// proves what the best plan cannot be below; between the two a gap may stay. The functions of
// interleaved_search.h call it.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a cutoff is a time
// that a plan must stay below to be wanted; a candidate is all plans of one batch size, pipeline
// degree, number of micro-batches and schedule; virtual stages are the several stages of one
// device; a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_SEARCH_H_

#include <cstdint>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/interleaved_choices.h"
#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Searches plans with any partition for the candidate of `setting`, over all masks, and adds what
// it finds to `finds`. Simulates plans while `looks_left` is above 0 and counts them off, one with
// many virtual stages as several, so that `looks_left` may end below 0; with 0 it only bounds.
// Counts states for each. The limits of `finds` on choices and passes are not asked, and
// `least_unseen` is left to the caller. Numbers of virtual stages with too many passes
// (`FitsPassLimit`) are passed over.
//
// Returns a lower bound of all these plans, those simulated included, in seconds with the overhead:
// the least over the numbers of virtual stages, each of which is bounded by itself. Infinite if it
// is not below the cutoff that `finds` had; 0 if `meter` stopped before all of them were bounded.
//
//   masks                  none is null, and each is usable; they must outlive the call only
//   virtual_stage_counts   numbers of stages of one device, ascending, at least 2
//   group_sizes            `Plan::micro_batch_group_size` of the plans: 0 alone, or one or more
//                          sizes above the pipeline degree, which are tried on a partition one
//                          after the other; the bound then holds for all sizes there are
//
// REQUIRES, unchecked: the setting is one of 1F1B; with size 0 its micro-batches are a multiple of
// the pipeline degree; `evaluator` is one for its problem.
double SearchUneven(const PipelineSetting& setting, const std::vector<const MaskedOptions*>& masks,
                    const std::vector<int>& virtual_stage_counts,
                    const std::vector<int64_t>& group_sizes, PlanEvaluator& evaluator,
                    InterleavedFinds& finds, int64_t& looks_left, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_UNEVEN_SEARCH_H_
