// Plans from smaller spaces, for questions whose proof leaves a gap or which have no plan without a
// proof of that.
//
// A search that ends without a proof may miss plans that a search of a smaller space finds, because
// it spends its limits elsewhere. So the spaces are searched that remain when some groups of
// dimensions are left out, each as if it had been asked for. The family of these spaces is closed:
// what a space of it leaves out, alone or together, is in it too. So for every space of the family
// the answer of the whole space is no slower than the answer of that space.
//
// On few devices all of these are also searched for smaller devices of a fixed list
// (`SmallerDevices`), so that an answer is no slower than that of a smaller device of the list.
// This holds without a wanted gap and without limits of time and states.
//
// A search by itself starts without a plan and takes long. So a proof that a space has nothing
// faster than the best plan known is tried before. Plans of partitions that are not listed are
// searched with the best plan known, which loses none that is faster. Only a space of which more
// stays open is searched by itself. Used by `SearchExact`.
//
// Words (docs/glossary.md): virtual stages are the several stages of one device; a definition is
// the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_NESTED_SPACES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_NESTED_SPACES_H_

#include <functional>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_problem.h"
#include "planner/model/search_space.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// The knowledge that the search of one space has. By default nothing is known.
struct SpaceAnswer {
  // Lower bounds of the time per sample. Those of a space hold for the spaces within it.
  KindBounds bounds;
  // The same of plans with block recomputation; 0 if nothing is known.
  Seconds blocks;
  // Plans that fit, best first.
  std::vector<PredictedPlan> plans;
  // Whether it is a proof after which the search of the space by itself would find no plan that is
  // faster than these and than what it was to prove. Only a `SpaceProof` sets it.
  bool is_settled = false;
};

// Searches the space of a question by itself. It may end once it is proved that no plan takes less
// time per sample than `enough`, which is infinite while there is no plan. `problem` is valid
// during the call.
using SpaceSearch = std::function<SpaceAnswer(const PlanningProblem& problem, Seconds enough)>;
// Tries to prove that no plan of a space, of which `known` is known, takes less time per sample
// than `enough`, which is finite. Returns the bounds that it found, whether the proof succeeded or
// not, with 0 for the kinds that it did not look at, and faster plans that it met. Block
// recomputation is not its matter: it is called only if `known.blocks` is no less than `enough`.
// Both arguments are valid during the call.
using SpaceProof = std::function<SpaceAnswer(const PlanningProblem& problem,
                                             const SpaceAnswer& known, Seconds enough)>;
// The two ways to search a space within another. Neither function is empty.
struct SpaceSearches {
  SpaceSearch search;
  SpaceProof prove;
};

// Returns whether the model has few enough definitions (at most 64) and layers (at most 2,048) for
// searches within others.
bool IsNestingCheap(const PlanningProblem& problem);

// Returns, for each of these groups in this order, the dimensions of the problem without the group:
// virtual stages; uneven stages; rings and Ulysses; hybrid sharding. A group that the problem lacks
// has no entry, nor have virtual stages if the rules ask for them. Empty if the model has too many
// definitions or layers (`IsNestingCheap`).
std::vector<DimensionSet> SpacesWithoutGroups(const PlanningProblem& problem);

// Searches the spaces within that of `problem`, of which `whole` is known, and then, on at most 64
// devices, all of them and the whole space for each smaller device, the largest first, and offers
// their plans to `plans`, which may be empty. Does nothing unless `IsNestingCheap`. Passes over
// those whose bounds, or a proof, say that none of their plans is faster than the last one of
// `plans`, if these are as many as wanted. Ends when `meter` stops, which is asked before each
// space. Larger spaces come before those within them, and calls come one after the other on the
// calling thread. `whole.plans` is not read: `plans` has them already. Plans from smaller devices
// are offered with the usable memory of `problem` in their prediction.
void SearchNestedSpaces(const PlanningProblem& problem, const SpaceAnswer& whole,
                        const SpaceSearches& searches, PlanList& plans, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_NESTED_SPACES_H_
