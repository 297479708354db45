// The loop of `exact` over its candidates: each is bounded, and searched where its bound
// allows a plan better than the best.

#ifndef PARPLAN_PLANNER_SEARCH_BEST_FIRST_SEARCH_H_
#define PARPLAN_PLANNER_SEARCH_BEST_FIRST_SEARCH_H_

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/search/candidate_queue.h"
#include "planner/search/exact_candidates.h"
#include "planner/search/plan_assembly.h"
#include "planner/search/search_meter.h"
#include "planner/search/strategy_space.h"

namespace parplan {

// Seconds a sample.
inline double TimePerSample(const PredictedPlan& plan) {
  return plan.prediction.step.value() / static_cast<double>(plan.plan.global_batch_size);
}

// The search in one problem; for fronts there are several that differ in memory only.
// Keeps references to its arguments. Candidates are visited in rounds of fixed size, each
// with the best plan of the rounds before: the same on any number of threads.
class BestFirstSearch {
 public:
  // Steps are as long where they differ by less than rounding can explain.
  static constexpr double kProofTolerance = 1e-9;

  // `wanted` plans are found, at most.
  BestFirstSearch(const PlanningProblem& problem, const CostModel& costs,
                  const SearchControl& control, TableCache& tables, SearchMeter& meter, int wanted)
      : costs_(costs),
        control_(control),
        tables_(tables),
        meter_(meter),
        space_(problem, costs),
        wanted_(wanted),
        plans_(wanted) {}

  // False when a limit ended it.
  bool List();
  // Instead of `List`: those of a search with more memory, whose bounds hold here too.
  void Take(std::vector<ExactCandidate> candidates);
  // Until nothing is left that could be better, or a limit ends it.
  void Run();

  // Other methods are not asked for a plan.
  void KeepUnseeded() { was_seeded_ = true; }
  // Whether it is proved that no plan of the space fits.
  bool IsEmpty() const;

  const std::vector<ExactCandidate>& candidates() const { return candidates_; }
  int64_t candidate_count() const { return static_cast<int64_t>(candidates_.size()); }
  PlanList& plans() { return plans_; }
  const StrategySpace& space() const { return space_; }

  // No plan of the space is faster, in seconds a sample.
  double BoundPerSample() const;

 private:
  struct Visited {
    double bound = 0.0;
    std::vector<PredictedPlan> plans;
    int64_t expanded = 0;
    int64_t pruned = 0;
    SearchLimit limit = SearchLimit::kNone;
  };

  // A plan must take less a sample to be worth having.
  double MostPerSample() const { return plans_.MostTimePerSample() * (1.0 - kProofTolerance); }
  // The first candidates of the queue, of one state, which leave it.
  std::vector<size_t> NextRound(CandidateQueue& queue);
  // Once, where the search is hard: a plan to beat.
  void Seed();
  void Visit(const std::vector<size_t>& round);
  Visited VisitOne(const ExactCandidate& candidate, const SearchControl& control) const;
  void Report() const;

  const CostModel& costs_;
  const SearchControl& control_;
  TableCache& tables_;
  SearchMeter& meter_;
  const StrategySpace space_;
  const int wanted_;
  std::vector<ExactCandidate> candidates_;
  bool listed_all_ = false;
  bool was_seeded_ = false;
  PlanList plans_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BEST_FIRST_SEARCH_H_
