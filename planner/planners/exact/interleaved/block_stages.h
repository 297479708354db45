// Plans with block recomputation in virtual stages (block_choice.h). `SearchBlocks` calls it.
//
// Partitions that are listed are bounded by the paths through them, with each number of recomputed
// layers, and simulated unless that excludes them. For the others a bound over all partitions
// (block_bound.h) orders the numbers of virtual stages; in the most promising, partitions of about
// equal loads are simulated and improved by moving layers, each with the least number of recomputed
// layers with which it fits.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; virtual stages are the several stages of one device; a partition is
// the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_BLOCK_STAGES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_BLOCK_STAGES_H_

#include <cstdint>

#include "base/units.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Searches the plans of one candidate and choice with these partitions, and adds to `plans` those
// that fit and are faster than its last one, or any that fit while it is not full. Here
// `partitions` may have one virtual stage a device, too. Simulates plans while `looks_left` is
// above 0 and counts them off; each counts 64 states on `meter`, too. Plans of one virtual stage a
// device have the schedule of the setting, all others are interleaved, with groups of as many
// micro-batches as devices. Partitions with too many passes (`FitsPassLimit`) are passed over.
// Plans in which all transformer layers recompute are left to other searches.
//
// Returns a lower bound of the step, overhead included, of the plans that may be faster than that
// and were not looked at, because a limit ended the search or their partition is not listed;
// infinite if there are none. Of partitions that are not listed it counts those looked at, too.
//
// REQUIRES, unchecked: `choice` was made from the table of `setting`; `evaluator` is one for its
// problem; with several virtual stages a device, the setting is one of 1F1B and the micro-batches
// are a multiple of the pipeline degree.
Seconds SearchBlockStages(const PipelineSetting& setting, const BlockChoice& choice,
                          const InterleavedPartitions& partitions, PlanEvaluator& evaluator,
                          PlanList& plans, int64_t& looks_left, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_BLOCK_STAGES_H_
