// One method of the Galvatron papers' planners: which strategies layers may have, and how layers
// are divided into stages. Used by `SearchGalvatron`.
//
// Words (docs/glossary.md): a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_METHOD_H_
#define PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_METHOD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/planners/galvatron/galvatron_tables.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {

// The method: one of the combinations that a variant of the planners has (galvatron_search.h).
struct GalvatronMethod {
  // Whether layers may be recomputed.
  bool with_recompute = false;
  // Whether stages are adjusted from balanced memory to balanced time (bi_objective.h), which
  // plans of one stage leave out, or divided by the partitioner of the rules.
  bool adjusts = false;
};

// The tables of a problem's pipeline degrees and micro-batch sizes, each made once. Not
// thread-safe.
class GalvatronTableCache {
 public:
  // References must outlive this object.
  GalvatronTableCache(const StrategySpace& space, const CostModel& costs,
                      SearchMeter* meter = nullptr)
      : space_(space), costs_(costs), meter_(meter) {}

  // Returns the tables that together cover the strategies; none if some layer has no strategy,
  // there are fewer units than stages, or the meter, if there is one, has ended the search. They
  // live as long as this object.
  const std::vector<GalvatronTables>& Of(int pipeline_parallel_degree, int64_t micro_batch_size,
                                         bool with_recompute);

 private:
  const StrategySpace& space_;
  const CostModel& costs_;
  SearchMeter* const meter_;
  std::map<std::tuple<int, int64_t, bool>, std::vector<GalvatronTables>> tables_;
};

// The search of one method over batches, pipeline degrees and micro-batch counts. What it finds
// depends on plans that others found only where these are better, so that an answer over several
// methods is never worse than that of each. Not thread-safe.
class GalvatronMethodSearch {
 public:
  // References must outlive this object.
  GalvatronMethodSearch(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, GalvatronTableCache& tables,
                        GalvatronMethod method, SearchMeter& meter);

  // Lists the candidates, regardless of memory: those of the pipeline degrees that the method has,
  // under the schedule of the rules or, if they name none, `kDefaultSchedule`. Some are missing if
  // the meter stops. To be called once, before all below, which is not checked: without it there
  // are none.
  void List();

  // Searches all candidates and replaces `best` by each better plan; returns whether there was one.
  // Calls `on_candidate`, which must not be empty, before each, also before those whose bound
  // excludes them.
  bool Run(std::optional<PredictedPlan>& best, const std::function<void()>& on_candidate);
  // Searches as if devices had the memory of `smaller`, which differs from the problem in nothing
  // else and has no more of it, and replaces `best` by each faster plan; returns whether there was
  // one. Candidates of one stage are left out: there more memory is never slower
  // (docs/galvatron.md, *More memory*).
  bool RunSmaller(const PlanningProblem& smaller, std::optional<PredictedPlan>& best);

  // Returns whether the method finds a plan; false too if the meter ended it.
  bool FindsAny();

  // Returns the number of candidates listed; 0 before `List`.
  int64_t candidate_count() const { return static_cast<int64_t>(candidates_.size()); }
  // Returns a lower bound of the least usable memory with which the method finds a plan;
  // `Bytes::Max()` without candidates.
  Bytes LeastUsableMemory();
  // Returns a lower bound of the step, `CostModel::step_overhead` included, of the listed
  // candidates' plans with a batch; infinite if there are none.
  Seconds LowerBound(int64_t global_batch_size) const;

 private:
  // One part of the space.
  struct Candidate {
    int64_t global_batch_size = 1;
    int64_t micro_batch_count = 1;
    const GalvatronTables* tables = nullptr;
    // Lower bound of the step of its plans.
    Seconds bound;
    // Lower bound of the peak of its plans; absent until it is asked for, because it takes longer
    // than the rest of a candidate.
    std::optional<Bytes> least_memory;
    Seconds per_sample() const { return bound / static_cast<double>(global_batch_size); }
  };
  static bool MorePromising(const Candidate& a, const Candidate& b);

  // Whether a plan fits the memory that is searched.
  bool Fits(const Prediction& prediction) const {
    return prediction.peak_memory_upper <= searched_->usable_memory();
  }
  // Whether layers may be divided by other partitions than the even one.
  bool AllowsUneven() const;
  void Add(Candidate candidate);
  Bytes LeastMemoryOf(Candidate& candidate);
  GalvatronStages StagesOf(const Candidate& candidate);
  // Returns the partition of the rules, or nothing if it is the best of several.
  std::optional<Partition> OnlyPartition(const GalvatronTables& tables,
                                         const GalvatronStages& stages) const;
  // Returns the partitions to start from if the best is wanted, without repetition.
  std::vector<Partition> Starts(const GalvatronTables& tables, const GalvatronStages& stages) const;
  // Returns the best plan of a candidate; nothing if none fits.
  std::optional<PredictedPlan> BestOf(Candidate& candidate);
  std::optional<PredictedPlan> BestByPartitioner(const Candidate& candidate,
                                                 GalvatronStages& stages);
  std::optional<PredictedPlan> BestByAdjustment(const Candidate& candidate,
                                                GalvatronStages& stages);
  std::optional<PredictedPlan> PlanOf(const Candidate& candidate, GalvatronStages& stages,
                                      const Partition& partition);

  const PlanningProblem& problem_;
  // The problem whose memory plans must fit: `problem_`, or that of `RunSmaller`.
  const PlanningProblem* searched_;
  const CostModel& costs_;
  const StrategySpace& space_;
  GalvatronTableCache& tables_;
  const GalvatronMethod method_;
  SearchMeter& meter_;
  PlanEvaluator evaluator_;
  const Schedule schedule_;
  std::vector<Candidate> candidates_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_GALVATRON_GALVATRON_METHOD_H_
