// The search of one candidate under one mask of options (`PlanWideMasks`).
//
// It starts with a lower bound from the graph of partitions (partition_graph.h). Then, for a window
// of step times above that bound, all stages that can be part of such a plan are solved
// (front_cache.h) and joined (suffix_search.h), first with times rounded down to coarse grains so
// that few sums differ: that raises the bound to within a grain of the best step and finds a plan
// close to it. Finer grains, and finally none, repeat this for the step times between bound and
// plan. The first plan without grains is the best by the bound of the schedule; if its simulated
// step is longer than the bound, all plans that may be faster are simulated. The searches and
// bounds of pipeline_search.h make one per mask or part of it, those of block_pipeline.h one per
// choice.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a cutoff is a time
// that a plan must stay below to be wanted; a candidate is all plans of one batch size, pipeline
// degree, number of micro-batches and schedule; an option is a strategy of a layer definition with
// its costs (option_table.h); a partition is the number of layers of each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_

#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/pipeline/front_cache.h"
#include "planner/planners/exact/pipeline/partition_graph.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/planners/exact/pipeline/range_bound.h"
#include "planner/planners/exact/pipeline/suffix_search.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/layout_classes.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Searches one candidate under one mask. All times are of steps without their overhead, in seconds;
// a `cutoff` may be infinite. `plans` keeps `wanted` plans, and those added fit the memory of the
// problem. Keeps references to its arguments, which must outlive it. Not thread-safe.
//
// If `meter` stops, bounds returned still hold, but may be low, and plans may be missing.
class MaskSearch {
 public:
  // `classes` and `evaluator` are those of the table and the problem of `setting`. With a `rule`,
  // only `LowerBound`, which does not know it, and `SearchRule` may be called; null, the default,
  // if options are chosen.
  MaskSearch(const PipelineSetting& setting, const OptionMask& allowed, LayoutClasses& classes,
             PlanEvaluator& evaluator, SearchMeter& meter, StageRule* rule = nullptr);

  // Returns a lower bound of the step of any plan, or `cutoff` if that is less; infinite if there
  // is no plan.
  double LowerBound(double cutoff);

  // Makes the plan of the lower bound's partition whose stages mix what is good at the price of
  // memory, and offers it to `plans` if its step is below `cutoff`. Returns its step; infinite if
  // it does not fit. REQUIRES, unchecked: `LowerBound` was finite and below its `cutoff`.
  double TryMix(double cutoff, PlanList& plans);

  // Adds the best plans by coarsely rounded times with steps below `cutoff`. REQUIRES, unchecked:
  // `lower` is a result of `LowerBound`.
  void SearchCoarsely(double lower, double cutoff, int wanted, PlanList& plans);

  // Adds plans with steps below `cutoff` and returns the lower bound, as `LowerBound` does. Clears
  // `is_exact` if the best of them may be missing, and never sets it.
  double Search(double cutoff, int wanted, PlanList& plans, bool& is_exact);

  // Adds the plans whose stages follow the rule, with steps below `cutoff`, and returns their lower
  // bound. Clears `is_exact` if the best of them may be missing. REQUIRES, unchecked: there is a
  // rule whose choices are options of the mask; `lower` is a lower bound of the plans that follow
  // it.
  double SearchRule(double lower, double cutoff, int wanted, PlanList& plans, bool& is_exact);

  // Returns the most bytes by which a plan that was refused for its memory exceeded it; 0 if none
  // was.
  Bytes max_excess() const { return max_excess_; }

 private:
  // Builds the graph for plans of at most `target` seconds; if its stages have too many runs of
  // layers to solve, keeps only its best partition.
  PartitionGraph::Outcome Prepare(double target);
  int64_t RunCount() const;
  // Returns fronts of a relaxation, whose times are rounded down by the share `grain` of about a
  // stage's time.
  FrontCache CoarseFronts(double lower, double grain, FrontKeeps keeps);
  enum class Relaxed {
    // Plans were found, or `lower` says that there are none below `cutoff` and `found`.
    kDone,
    // Not everything was looked at.
    kStopped,
  };
  // Searches the best plans by the relaxed bound. Raises `lower`; to `cutoff` or `found` if there
  // are none below. `found` is the shortest step simulated.
  Relaxed SearchRelaxed(FrontCache& fronts, double cutoff, int wanted, PlanList& plans,
                        double& lower, double& found);
  // Searches all plans whose bound allows a step below `cutoff`. Raises `lower` to the best step of
  // all. Returns false if a limit ended it.
  bool SearchAll(double cutoff, int wanted, PlanList& plans, double& lower);
  // Simulates the best results. Returns the shortest step of a plan that fits.
  double Try(const SuffixSearch& suffixes, double cutoff, int wanted, PlanList& plans);
  // Returns whether all neighbouring layers are allowed, given their real layouts instead of the
  // representatives of their classes.
  bool MayFollow(absl::Span<const ChosenStage> stages);
  // Returns the step of the plan if it fits, else infinite. Adds the plan if its step is below
  // `cutoff`.
  double Offer(absl::Span<const ChosenStage> stages, double cutoff, PlanList& plans);

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  LayoutClasses& classes_;
  SearchMeter& meter_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  const bool has_rule_;
  const std::vector<int> reference_;
  bool was_built_ = false;
  RangeBounds ranges_;
  PartitionGraph graph_;
  FrontCache all_;
  bool is_partial_ = false;
  Bytes max_excess_;
  // The shortest step of the refused plans.
  double least_refused_ = kInfinity;
  ScheduleEvaluator schedule_;
  std::vector<StageTimes> times_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_
