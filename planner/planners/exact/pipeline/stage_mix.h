// A fast heuristic for the options of a stage, to have an incumbent early, used by `MaskSearch` and
// `SearchPricedPipeline`; and the times of a stage, which `FrontCache` and `BlockRule` set too.
//
// Words (docs/glossary.md): a price is the Lagrangian multiplier of memory, in seconds per byte; an
// option is a strategy of a layer definition with its costs (option_table.h); a definition is the
// sizes of a layer, the same for equal layers; the incumbent is the best plan found so far.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_

#include <optional>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// Chooses options for layers [first, end) as stage `stage`; an empty `allowed` permits all. At the
// price of memory at which the best options just fit, each definition has a fast option and a small
// one; as many layers as fit take the fast one. Near the optimum if neither causes resharding. Kept
// outputs count with the largest layout, and memory of the optimizer's step does not count, so a
// plan made of such stages may still need too much. Returns nothing if even the small ones do not
// fit, a definition has no option that `allowed` permits, or two neighbours chosen have no
// transition. O(rounds * prices * definitions * options + layers), with 3 rounds of up to 24
// prices.
std::optional<StageChoice> MixStage(const PipelineSetting& setting, const OptionMask& allowed,
                                    int stage, int first_layer, int end_layer);

// Sets the times of a choice (`forward`, `backward`, `sync`) and the layouts of its ends
// (`first_layout`, `last_layout`) from its options. Adds up consecutive layers of one option
// together, as `PlanEvaluator` does. Times are infinite if two neighbours have no transition.
// REQUIRES, unchecked: `choice.options` has an entry for each layer of `runs`, of which there is at
// least one.
void SumTimes(const OptionTable& table, absl::Span<const DefinitionRun> runs, StageChoice& choice);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_STAGE_MIX_H_
