// The searches and proofs of the spaces within that of a question. Used by `SearchExact`.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_SPACE_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_SPACE_SEARCH_H_

#include <map>
#include <string>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/nested_spaces.h"
#include "planner/planners/exact/visit_cache.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The knowledge that the searches of the spaces of one question share: their problems differ in
// dimensions and memory only. None of it depends on the memory but the visits, which say for which
// they are. Not thread-safe.
struct SharedKnowledge {
  // Tables of layer costs, by the dimensions of strategies: the names of all dimensions but those
  // of virtual stages, group sizes and uneven stages (`DimensionSet::ToString`).
  std::map<std::string, TableCache> tables;
  // The same for plans of one strategy (`SearchOneStrategy`).
  std::map<std::string, TableCache> one_strategy_tables;
  // Candidates as they are listed, by the names of all dimensions; complete lists only.
  std::map<std::string, CandidateList> lists;
  std::map<std::string, CandidateList> one_strategy_lists;
  // Times of strategies, for all lists.
  LeastTimesMemo least_times;
  // The visits of candidates, and the usable memory for which they were made: the caller that makes
  // this object sets it, and then `KeepVisitsOf`.
  VisitCache visits;
  Bytes memory_of_visits;

  // Returns the tables for the dimensions of strategies of `problem`, made empty at the first call;
  // valid as long as this object.
  TableCache& TablesOf(const PlanningProblem& problem);
  // Forgets visits of other memories, but not the bounds they found (`VisitCache::Forget`), and
  // notes that those to come are for `usable_memory`.
  void KeepVisitsOf(Bytes usable_memory);
};

// Lists the candidates of the search of a space, or takes them from `known` if a search of the same
// dimensions has listed them, with whatever memory. Returns false if a limit ended it: then the
// meter of `search` has stopped, and `known` is unchanged but for `least_times`.
bool ListOnce(BestFirstSearch& search, SharedKnowledge& known);

// Searches uneven virtual stages in plans of one strategy by themselves, as a question for a
// program that runs no others does, and adds what it finds to the plans of `search`. Not all
// strategies of such plans are looked at, so the larger space alone might give a slower plan than
// this part of it. The space is that of `problem` less the dimensions that Megatron-Core lacks
// (`LimitsOf`).
//
// Does nothing without `per-layer` and `uneven-stages`, with a tied table or more than
// `kMaxDefinitionsChosen` definitions (interleaved_search.h), if `meter` has stopped, if `search`
// has neither plans nor a ceiling, or if its bounds say that no interleaved plan is wanted. Adds
// plans only, no bounds. Counts on `meter`; reports no progress. `problem` is that of `search`,
// which is not checked.
void SearchOneStrategy(const PlanningProblem& problem, const CostModel& costs,
                       const SearchControl& control, BestFirstSearch& search,
                       SharedKnowledge& known, SearchMeter& meter);

// Searches the space of a mixture of experts that has the fewest strategies before that of `search`
// and adds its plans to those of `search`: the space without virtual stages, groups of more
// micro-batches, hybrid sharding, recomputation of modules and of blocks, tensor degrees of experts
// and ZB-H1. With all of them a layer has thousands of strategies, and a search that is stopped
// after seconds would have seen none of its plans. Its answer then is no slower than that of the
// smaller space under the same limits of states.
//
// Does nothing for models without experts, which are searched fast enough, if the rules ask for
// virtual stages, or if the question has none of these dimensions. The arguments are those of
// `SearchesOfSpaces`; candidates of `search` are listed and not yet searched.
void SearchFewDimensions(const PlanningProblem& problem, const CostModel& costs,
                         const SearchControl& control, BestFirstSearch& search,
                         SharedKnowledge& known, SearchMeter& meter);

// Returns how to search, and prove, spaces within that of `whole`, through which the searches
// report progress and on whose `meter` they count. Each has what `control` and `meter` leave of
// states and time, and the effort 1; once a limit ends one, `meter` stops too. All arguments but
// `problem` must outlive the result, which keeps references to them. This call forgets visits of
// `known` for other memories than that of `problem`, and each call of the result those for other
// memories than that of its problem.
SpaceSearches SearchesOfSpaces(const PlanningProblem& problem, const CostModel& costs,
                               const SearchControl& control, BestFirstSearch& whole,
                               SharedKnowledge& known, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_SPACE_SEARCH_H_
