// Outcomes of visits to candidates, for searches of spaces within one another.
//
// A visit depends on the strategies of the space, the memory, the candidate and the cutoff. Spaces
// that differ only in virtual stages, or in how stages are cut where there is one stage, have the
// same visits, which take nearly all the time of a search. A recorded visit is what the search
// would have found itself, so it changes no answer.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The outcome of one visit.
struct CandidateVisit {
  Seconds bound;
  std::vector<PredictedPlan> plans;
  bool is_exact = true;
  // Whether the candidate must be searched again, to its end.
  bool is_open = false;
  int64_t expanded = 0;
  int64_t pruned = 0;
  SearchLimit limit = SearchLimit::kNone;
};

// Visits of the spaces of one question: the rules but for the dimensions are the same in all. Not
// thread-safe.
class VisitCache {
 public:
  struct Key {
    // `StrategiesId`, the memory of one device that plans may use, and whether stages must be even.
    int strategies = 0;
    Bytes usable_memory;
    bool has_even_stages = false;
    // The candidate.
    int64_t global_batch_size = 0;
    int64_t micro_batch_count = 0;
    int pipeline_parallel_degree = 0;
    Schedule schedule = kDefaultSchedule;
    ExactCandidate::State state = ExactCandidate::State::kListed;
    // Seconds.
    double cutoff = 0.0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Returns a number for the dimensions of strategies, given by name.
  int StrategiesId(const std::string& dimensions) {
    return strategies_.emplace(dimensions, static_cast<int>(strategies_.size())).first->second;
  }
  // Returns the recorded visit, or null. Valid until `Forget`.
  const CandidateVisit* Find(const Key& key) const {
    const auto found = visits_.find(key);
    return found == visits_.end() ? nullptr : &found->second;
  }
  // Records a visit that no limit ended.
  void Record(Key key, const CandidateVisit& visit) {
    if (visit.limit == SearchLimit::kNone) visits_.emplace(std::move(key), visit);
  }
  // Forgets the visits, to free their memory.
  void Forget() { visits_.clear(); }
  // Returns the number of recorded visits.
  size_t size() const { return visits_.size(); }

 private:
  std::map<std::string, int> strategies_;
  std::map<Key, CandidateVisit> visits_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_
