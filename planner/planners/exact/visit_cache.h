// Outcomes of visits to candidates, for searches of spaces within one another.
//
// A visit depends on the strategies of the space, the memory, the candidate and the cutoff. Spaces
// that differ only in virtual stages, or in how stages are cut where there is one stage, have the
// same visits, which take nearly all the time of a search. With the same effort a recorded visit is
// what the search would have found itself, so it changes no answer. `BestFirstSearch` reads and
// records visits.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a
// candidate is all plans of one batch size, pipeline degree, number of micro-batches and schedule.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The outcome of one visit, which bounds a candidate in state `kListed` and searches it in others.
struct CandidateVisit {
  // The members with these names of `PipelineOutcome` (pipeline_search.h): the bound is of a step,
  // in seconds, with its overhead. A visit that only bounds has no plans, and `is_exact` is true.
  Seconds bound;
  std::vector<PredictedPlan> plans;
  bool is_exact = true;
  // Whether the candidate must be searched again, to its end.
  bool is_open = false;
  // States that the visit expanded and pruned, and the limit that ended it.
  int64_t expanded = 0;
  int64_t pruned = 0;
  SearchLimit limit = SearchLimit::kNone;
};

// Visits of the spaces of one question: the rules but for the dimensions are the same in all. Not
// thread-safe.
class VisitCache {
 public:
  // Everything that decides the outcome of a visit, but for two things: the number of plans wanted,
  // which must be the same in all searches that share the cache, and the effort: a search may take
  // a visit that was made with more.
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
    // Seconds per sample; infinite if any plan is wanted.
    double cutoff = 0.0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // Returns a number, from 0, for the dimensions of strategies, given by name; the same for the
  // same name. `Forget` keeps it.
  int StrategiesId(const std::string& dimensions) {
    return strategies_.emplace(dimensions, static_cast<int>(strategies_.size())).first->second;
  }
  // Returns the recorded visit, or null. Valid until `Forget`.
  const CandidateVisit* Find(const Key& key) const {
    const auto found = visits_.find(key);
    return found == visits_.end() ? nullptr : &found->second;
  }
  // Records a visit that no limit ended; ignores others. If the key is known, the first visit
  // stays, and only a larger bound is taken.
  void Record(const Key& key, const CandidateVisit& visit) {
    if (visit.limit != SearchLimit::kNone) return;
    visits_.emplace(key, visit);
    if (!visit.is_exact && !visit.is_open) given_up_.insert(WithoutProgress(key));
    Known& known = known_[WithoutMemory(key)];
    known.bound = std::max(known.bound, visit.bound);
    known.usable_memory = std::min(known.usable_memory, key.usable_memory);
  }
  // Returns a lower bound of the step of a candidate, for any state and cutoff, that visits have
  // found: the largest, which holds for the least memory of them and for any below. 0 if there were
  // none, or one with less memory than the key has.
  Seconds BoundOf(const Key& key) const {
    const auto found = known_.find(WithoutMemory(key));
    if (found == known_.end() || found->second.usable_memory < key.usable_memory) return Seconds();
    return found->second.bound;
  }
  // Returns whether a visit to the candidate with this memory, for any state and cutoff, ended at
  // its own limits. Another one probably does, too.
  bool IsGivenUp(const Key& key) const { return given_up_.contains(WithoutProgress(key)); }
  // Forgets the visits, to free their memory, but not the bounds they found and not which
  // candidates were given up.
  void Forget() { visits_.clear(); }
  // Returns the number of recorded visits.
  size_t size() const { return visits_.size(); }

 private:
  struct Known {
    Seconds bound;
    // The least memory of the visits.
    Bytes usable_memory = Bytes::Of(std::numeric_limits<int64_t>::max());
  };

  static Key WithoutProgress(Key key) {
    key.state = ExactCandidate::State::kListed;
    key.cutoff = 0.0;
    return key;
  }
  static Key WithoutMemory(Key key) {
    key.usable_memory = Bytes();
    return WithoutProgress(key);
  }

  std::map<std::string, int> strategies_;
  std::map<Key, CandidateVisit> visits_;
  std::map<Key, Known> known_;
  std::set<Key> given_up_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_VISIT_CACHE_H_
