// The loop of `exact` over its candidates: each is bounded, and searched where its bound
// allows a plan better than the best.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/cost/cost_model.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/exact/candidate_queue.h"
#include "planner/planners/exact/exact_candidates.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

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
    bool is_exact = true;
    // To be searched again, to its end.
    bool is_open = false;
    int64_t expanded = 0;
    int64_t pruned = 0;
    SearchLimit limit = SearchLimit::kNone;
  };

  struct Unproved {
    int64_t micro_batch_count = 0;
    double bound_per_sample = 0.0;
  };
  // What is known of all candidates of one table, and so of many batches.
  struct Group {
    // [interleaves] candidates that `SteadyBound` says something of.
    int steady_count[2] = {};
    // [interleaves] seconds a micro-batch, once asked for.
    std::optional<double> steady[2];
    // Nothing fits under GPipe with so many micro-batches; then nothing does with more.
    int64_t too_many_for_gpipe = std::numeric_limits<int64_t>::max();
    // [schedule] of the searches that ended without a proof, the one with most micro-batches.
    Unproved unproved[kScheduleCount + 1];
  };
  struct Question {
    TableCache::Key key;
    bool interleaves = false;
    friend auto operator<=>(const Question&, const Question&) = default;
  };

  void MakeGroups();
  // What the group of a candidate says of it, in seconds.
  double GroupBound(const PipelineCandidate& candidate) const;
  // Whether the search of a candidate is of no use: one of its group with more micro-batches
  // and a bound no higher ended without a proof. Then the answer has no better bound than
  // that one's, whatever this one finds, and what it would find takes hardly less a sample.
  bool IsOfNoUse(const ExactCandidate& candidate) const;
  // Makes the steady bounds of the groups of a round where there are enough candidates.
  void BoundGroups(const std::vector<size_t>& round);

  // A plan must take less a sample to be worth having.
  double MostPerSample() const { return plans_.MostTimePerSample() * (1.0 - kProofTolerance); }
  // The first candidates of the queue, of one state, which leave it.
  std::vector<size_t> NextRound(CandidateQueue& queue);
  // Once, where the search is hard: a plan to beat.
  void Seed();
  // False when a limit ended it.
  bool PrepareTables(const std::vector<size_t>& round);
  void Visit(std::vector<size_t> round);
  Visited VisitOne(const ExactCandidate& candidate, const SearchControl& control) const;
  // `states_of_round`: expanded in a round that goes on, about; not yet in the meter.
  void Report(int64_t states_of_round);

  const CostModel& costs_;
  const SearchControl& control_;
  TableCache& tables_;
  SearchMeter& meter_;
  const StrategySpace space_;
  const int wanted_;
  std::vector<ExactCandidate> candidates_;
  absl::flat_hash_map<TableCache::Key, Group> groups_;
  bool listed_all_ = false;
  bool was_seeded_ = false;
  int64_t reported_states_ = 0;
  PlanList plans_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_BEST_FIRST_SEARCH_H_
