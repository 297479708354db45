// Slow and obvious twins of the search, to judge the clever ones by.

#ifndef PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_
#define PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_

#include <functional>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/stage/layer_assignment.h"

namespace parplan {

// Every assignment of a stage, one after the other: the fastest that fits; of
// equals (to 1e-12 relative) the one with the smaller peak, then the one whose
// options come first.
std::optional<StageAssignment> BruteForceAssign(const StageChoices& stage, Bytes budget);

// The smallest peak of any assignment.
Bytes BruteForceSmallestBudget(const StageChoices& stage);

// The dynamic programme in its plain form (papers.md 1.3): memory in units
// of `granule`, rounded up, and room for the largest transient there is. Gives
// the time, or nothing when nothing fits.
std::optional<Seconds> GridAssign(const StageChoices& stage, Bytes budget, Bytes granule);

// Calls `visit` with every way to cut `layer_count` layers into `stage_count`
// stages.
void ForEachPartition(int layer_count, int stage_count,
                      const std::function<void(const std::vector<int>&)>& visit);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BRUTE_FORCE_H_
