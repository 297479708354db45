// The plans of one candidate under one mask of options (`PlanWideMasks`).
//
// A lower bound first, from the graph of partitions (partition_graph.h). Then, for steps a
// little longer than what is known to be too short, all stages that may be part of such a plan
// are solved (front_cache.h) and joined (suffix_search.h), first with times rounded down, so
// that few sums differ: that raises the bound to within a grain of the best step and finds a
// plan near it. With finer grains, and at last with none, the same is done again for steps
// between the two. The first plan without grains is the best by the bound of schedules; where
// its simulated step is longer than the bound, all plans that may be faster are simulated.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_

#include <limits>
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
#include "planner/search/space/layout_classes.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Steps are as long where they differ by less than rounding explains.
inline constexpr double kStepTolerance = 1e-9;

// All times are of steps without their overhead, in seconds. Keeps references to its arguments.
class MaskSearch {
 public:
  MaskSearch(const PipelineSetting& setting, const OptionMask& allowed, LayoutClasses& classes,
             PlanEvaluator& evaluator, SearchMeter& meter);

  // No plan has a shorter step than this or `most`, whichever is less.
  double LowerBound(double most);

  // The plan of the partition of the lower bound, with stages mixed of what is good at the
  // price of memory. Its step; infinite where it does not fit. REQUIRES: a finite
  // `LowerBound` of less than its `most`.
  double TryMix(double most, PlanList& plans);

  // Adds the best plans by times rounded down coarsely, of steps below `most`. REQUIRES: `lower`
  // is a `LowerBound`.
  void SearchCoarsely(double lower, double most, int wanted, PlanList& plans);

  // Adds plans of steps below `most` and gives the bound. Clears `is_exact` where the best of
  // them may be missing.
  double Search(double most, int wanted, PlanList& plans, bool& is_exact);

  // What the plans that were refused have too much.
  Bytes most_excess() const { return most_excess_; }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  // The graph for plans of `target`; where that is too large, of one partition.
  PartitionGraph::Outcome Prepare(double target);
  int64_t RunCount() const;
  // The fronts of ways with times rounded down by a share of about what a stage takes.
  FrontCache WaysOf(double lower, double grain);
  enum class Relaxed {
    // Plans were found, or there are none below `most` and `found`: `lower` says so.
    kDone,
    // Not all were looked at.
    kStopped,
  };
  // The best plans by the relaxed bound. Raises `lower`, and to `most` or `found` where there
  // are none below; `found` is the shortest step simulated.
  Relaxed SearchRelaxed(FrontCache& ways, double most, int wanted, PlanList& plans, double& lower,
                        double& found);
  // All plans whose bound allows a step below `most`. Raises `lower` to the best step of all;
  // false where a limit ended it.
  bool SearchAll(double most, int wanted, PlanList& plans, double& lower);
  // Simulates the best results. The shortest step of a plan that fits.
  double Try(const SuffixSearch& suffixes, double most, int wanted, PlanList& plans);
  // Whether all layers may follow each other, whatever stood for their layouts.
  bool MayFollow(absl::Span<const ChosenStage> stages);
  // The step of the plan where it fits and is below `most`; else infinite.
  double Offer(absl::Span<const ChosenStage> stages, double most, PlanList& plans);

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  LayoutClasses& classes_;
  SearchMeter& meter_;
  PlanEvaluator& evaluator_;
  const double overhead_;
  const std::vector<int> reference_;
  bool was_built_ = false;
  RangeBounds ranges_;
  PartitionGraph graph_;
  FrontCache all_;
  bool is_partial_ = false;
  Bytes most_excess_;
  // The shortest step of those refused.
  double least_refused_ = kInfinite;
  ScheduleEvaluator schedule_;
  std::vector<StageTimes> times_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_SEARCH_H_
