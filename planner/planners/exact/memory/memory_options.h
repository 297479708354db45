// The options of a table, reduced to those that matter for memory. Used by the two searches of this
// folder.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; an option is a
// strategy of a layer definition with its costs (option_table.h); a definition is the sizes of a
// layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_

#include <vector>

#include "planner/search/space/option_table.h"

namespace parplan {

// Returns [definition] indices into `OptionTable::options`, ascending: the options allowed by
// `mask` that no other dominates in memory (states, kept, transient, communicators); among equal
// ones the first. Empty for definitions without layers, and for those of which `mask` allows
// nothing. REQUIRES, unchecked: `mask` has an entry for every option; an empty mask does not stand
// for all options here.
std::vector<std::vector<int>> LeanOptions(const ModelSpec& model, const OptionTable& table,
                                          const OptionMask& mask);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_MEMORY_MEMORY_OPTIONS_H_
