// The parts of the space that `exact` looks at one by one, and what they share.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// All plans of one batch, pipeline degree, micro-batch count and schedule.
struct ExactCandidate {
  PipelineCandidate pipeline;
  // No plan of it has a shorter step, in seconds.
  double bound = 0.0;
  enum class State {
    // Bounded by the least times of layers, whatever the memory.
    kListed,
    // By what layers cost within the memory.
    kBounded,
    // By a quick search, which did not see everything.
    kTried,
    // The best plan is known, or that there is none worth having, or it was given up.
    kSearched,
  };
  State state = State::kListed;

  double bound_per_sample() const {
    return bound / static_cast<double>(pipeline.global_batch_size);
  }
};

// The most promising first; total.
inline bool MorePromising(const ExactCandidate& a, const ExactCandidate& b) {
  const auto key = [](const ExactCandidate& candidate) {
    const PipelineCandidate& pipeline = candidate.pipeline;
    return std::tuple(candidate.bound_per_sample(), pipeline.global_batch_size,
                      pipeline.pipeline_parallel_degree, pipeline.micro_batch_count,
                      pipeline.schedule);
  };
  return key(a) < key(b);
}

// Tables of layer costs, by pipeline degree and micro-batch size. What memory devices have
// is no matter, so searches with other memories share them.
class TableCache {
 public:
  using Key = std::pair<int, int64_t>;
  static Key KeyOf(const PipelineCandidate& candidate) {
    return {candidate.pipeline_parallel_degree,
            candidate.global_batch_size / candidate.micro_batch_count};
  }

  // Makes those that are missing, side by side where `control` can; before each it is asked
  // whether to go on. False where not: then some may be missing. Others may be gone in any
  // case: of models with very many options not all are kept.
  bool Prepare(const StrategySpace& space, const CostModel& costs, std::vector<Key> keys,
               const SearchControl& control);
  // REQUIRES: it was among those prepared last, and none of them is missing.
  const OptionTable& At(const Key& key) const { return *tables_.at(key); }

 private:
  std::map<Key, std::unique_ptr<const OptionTable>> tables_;
};

// All candidates of the space of which each definition has some strategy, the most
// promising first; where one plan is wanted, without those of which another one has a plan
// as good for each of theirs. Ends early, with `complete` false, when `meter` says so.
struct CandidateList {
  std::vector<ExactCandidate> candidates;
  bool complete = true;
};
CandidateList ListCandidates(const StrategySpace& space, const CostModel& costs,
                             SearchMeter& meter);

// Plans that fit, of methods that take little time for any problem: the grids of `megatron`
// and `fsdp-best`, and `galvatron-bmw`; of several batches for the smallest and the largest.
// Each is in the declared space. No progress is told. Counts its states in `meter`.
std::vector<PredictedPlan> SeedPlans(const PlanningProblem& problem, const CostModel& costs,
                                     const SearchControl& control, SearchMeter& meter);

// Calls `work` with every index below `count`, by `parallel_for` where there is one.
void ForEach(const ParallelFor& parallel_for, int64_t count,
             const std::function<void(int64_t)>& work);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_EXACT_CANDIDATES_H_
