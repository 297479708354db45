// The parts of the space that `exact` bounds and searches one by one, and the tables they share.
// Used by `BestFirstSearch`, its callers and `SearchBlocks`.
//
// Words (docs/glossary.md): a meter counts states and says when a search must end (search_meter.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/capacity_bound.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// Returns whether the plans of the candidate have several virtual stages a device.
inline bool Interleaves(const PipelineCandidate& candidate) {
  return TraitsOf(candidate.schedule).has_virtual_stages;
}

// All plans of one batch size, pipeline degree, micro-batch count and schedule.
struct ExactCandidate {
  PipelineCandidate pipeline;
  // Lower bound of the step of its plans, overhead included; infinite if there are none or none
  // fits. Its state says what it rests on.
  Seconds bound;
  // The states of a candidate's life, in order (docs/glossary.md).
  enum class State {
    // Bounded by the least times of layers, regardless of memory.
    kListed,
    // Bounded by the costs of layers within the memory.
    kBounded,
    // Searched quickly, without looking at everything.
    kTried,
    // Closed: its best plan is known, or no plan of it is worth having, or it was given up.
    kSearched,
  };
  State state = State::kListed;

  // Returns the bound divided by the batch size.
  Seconds bound_per_sample() const {
    return bound / static_cast<double>(pipeline.global_batch_size);
  }
};

// Orders candidates by lower bound per sample, the least first; among equal ones by smaller batch,
// pipeline degree, number of micro-batches and schedule. A strict total order of the candidates of
// one list.
inline bool MorePromising(const ExactCandidate& a, const ExactCandidate& b) {
  const auto key = [](const ExactCandidate& candidate) {
    const PipelineCandidate& pipeline = candidate.pipeline;
    return std::tuple(candidate.bound_per_sample(), pipeline.global_batch_size,
                      pipeline.pipeline_parallel_degree, pipeline.micro_batch_count,
                      pipeline.schedule);
  };
  return key(a) < key(b);
}

// Tables of layer costs, and least costs, by pipeline degree and micro-batch size. They depend
// neither on the memory of devices nor on the dimensions of virtual and uneven stages, so searches
// that differ only in these may share them; others must not, which nothing checks. Not thread-safe.
class TableCache {
 public:
  // Pipeline degree and micro-batch size.
  using Key = std::pair<int, int64_t>;
  // Returns the key of the table that a candidate needs.
  static Key KeyOf(const PipelineCandidate& candidate) {
    return {candidate.pipeline_parallel_degree,
            candidate.global_batch_size / candidate.micro_batch_count};
  }

  // Makes the missing tables, in parallel if `control` can, and asks `control.should_stop` before
  // each table and each definition of it whether to go on. Returns false if not; tables may then be
  // missing, but none is incomplete. Duplicate keys do no harm. Tables of other keys may be
  // evicted: if a model has very many options, not all tables are kept. A table that is there may
  // be unusable (`OptionTable::usable`).
  bool Prepare(const StrategySpace& space, const CostModel& costs, std::vector<Key> keys,
               const SearchControl& control);
  // Makes the missing least costs, in parallel if `control` can, and asks `control.should_stop`
  // before those of each key. Returns false if it said to stop; then none of this call's are there.
  // They are never evicted.
  bool PrepareLeastCosts(const StrategySpace& space, const CostModel& costs, std::vector<Key> keys,
                         const SearchControl& control);
  // Returns the least costs of a key, valid as long as this object. REQUIRES: they were prepared;
  // otherwise throws std::out_of_range.
  const LeastCosts& LeastCostsAt(const Key& key) const { return least_costs_.at(key); }
  // Returns whether there is a table of this key.
  bool has(const Key& key) const { return tables_.contains(key); }
  // Returns a table, valid as long as this object or until `Prepare` evicts it. REQUIRES: `key` was
  // among those prepared last, and `Prepare` returned true; otherwise throws std::out_of_range if
  // there is no such table.
  const OptionTable& At(const Key& key) const { return *tables_.at(key); }

 private:
  std::map<Key, std::unique_ptr<const OptionTable>> tables_;
  std::map<Key, LeastCosts> least_costs_;
};

// The candidates of a problem.
struct CandidateList {
  // Most promising first.
  std::vector<ExactCandidate> candidates;
  // Those of plans with partitions that are not listed, in any order (interleaved_partitions.h).
  // Listed whether or not the space has such plans searched apart (`SearchesUnevenApart`); if not,
  // `candidates` has the same plans too.
  std::vector<ExactCandidate> uneven;
  // Those of plans with groups of more micro-batches than the pipeline degree, in any order. The
  // same batch, degree, number of micro-batches and schedule may be in all three lists.
  std::vector<ExactCandidate> grouped;
  // False if a limit ended the listing.
  bool complete = true;
};
// Lists the candidates in which every layer definition has at least one strategy, in state
// `kListed` with the bounds of that; those of more than `kMaxForwardPassCount` passes are left out.
// If only one plan is wanted (`PlanningRules::top_plan_count`), candidates of one stage are dropped
// for whose plans one with more micro-batches of the same size has a plan at least as good. Returns
// empty lists, with `complete` false, when `meter` stops, on which it counts no states. Takes times
// that other searches of the question have found from `memo`, and adds its own.
CandidateList ListCandidates(const StrategySpace& space, const CostModel& costs, SearchMeter& meter,
                             LeastTimesMemo& memo);

// Returns plans that fit, in any order, from methods that take little time for any problem: the
// grids of `megatron` and `fsdp-best`, and `galvatron-bmw`, at most one plan of each. If the batch
// may vary, one each for the smallest and the largest batch. Each plan is in the declared space.
// Reports no progress. Counts its states on `meter`; once that stops, returns what there is.
// `control` is that of the meter; each method may take the states that it leaves, up to a limit of
// its own.
std::vector<PredictedPlan> SeedPlans(const PlanningProblem& problem, const CostModel& costs,
                                     const SearchControl& control, SearchMeter& meter);

// Calls `work` with every index from 0 on below `count`, through `parallel_for` if it is set and
// `count` is above 1, else in order on the calling thread. Returns when all calls are done.
void ForEach(const ParallelFor& parallel_for, int64_t count,
             const std::function<void(int64_t)>& work);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_
