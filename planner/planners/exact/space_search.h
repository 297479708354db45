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

// The knowledge that the searches of the spaces of one question share. None of it depends on the
// memory but the visits, which say for which they are.
struct SharedKnowledge {
  // Tables of layer costs, by the dimensions of strategies.
  std::map<std::string, TableCache> tables;
  // The same for plans of one strategy.
  std::map<std::string, TableCache> one_strategy_tables;
  // Candidates as they are listed, by the dimensions.
  std::map<std::string, CandidateList> lists;
  std::map<std::string, CandidateList> one_strategy_lists;
  // Times of strategies, for all lists.
  LeastTimesMemo least_times;
  // The visits of candidates, and the usable memory for which they were made.
  VisitCache visits;
  Bytes memory_of_visits;

  // Returns the tables for the dimensions of strategies of `problem`, made empty at the first call;
  // valid as long as this object.
  TableCache& TablesOf(const PlanningProblem& problem);
  // Forgets visits of other memories.
  void KeepVisitsOf(Bytes usable_memory);
};

// Lists the candidates of the search of a space, or takes them from `known` if a search of the same
// dimensions has listed them, with whatever memory. Returns false if a limit ended it.
bool ListOnce(BestFirstSearch& search, SharedKnowledge& known);

// Searches uneven virtual stages in plans of one strategy by themselves, as a question for a
// program that runs no others does, and adds what it finds to the plans of `search`. Not all
// strategies of such plans are looked at, so the larger space alone might give a slower plan than
// this part of it.
void SearchOneStrategy(const PlanningProblem& problem, const CostModel& costs,
                       const SearchControl& control, BestFirstSearch& search,
                       SharedKnowledge& known, SearchMeter& meter);

// Returns how to search, and prove, spaces within that of `whole`, whose progress the searches
// report and on whose `meter` they count. The result keeps references to all arguments but
// `problem`, of which it forgets visits with other memories.
SpaceSearches SearchesOfSpaces(const PlanningProblem& problem, const CostModel& costs,
                               const SearchControl& control, BestFirstSearch& whole,
                               SharedKnowledge& known, SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_SPACE_SEARCH_H_
