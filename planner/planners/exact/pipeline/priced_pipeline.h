// Pipelines of many layers: a lower bound and good partitions from one memory price per stage, at a
// cost that does not depend on the ranges of layers stages may have.
//
// With a price, every layer of a stage chooses its cheapest option independently, and the cost of a
// stage is a difference of prefix sums over layers. On an average of paths through the pipeline
// every stage counts some number of passes (path_counts.h). The step is at least the least sum over
// all partitions, which a dynamic programme over (stage, layer) finds in constant time per state.
// Used by `SearchPricedPipeline`.
//
// Words (docs/glossary.md): a menu is the costs of a layer under its options, without those that
// are nowhere better than others; a price is the Lagrangian multiplier of memory, in seconds per
// byte; a front is the ways to run a stage of which none is better than another in every time; a
// candidate is all plans of one batch size, pipeline degree, number of micro-batches and schedule;
// an option is a strategy of a layer definition with its costs (option_table.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/layer_menus.h"
#include "planner/planners/exact/pipeline/path_counts.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// The sense in which the stages of a partition take equally long.
enum class PartitionShape {
  // Each stage with the first micro-batch in front of it counted, as in the bound of 1F1B with no
  // more micro-batches than stages: later stages get less.
  kAsInBound,
  // Each stage by itself.
  kEqualTimes,
};

// The relaxation of one candidate with the options of menus. Keeps references to its arguments,
// which must outlive it.
class PricedPipeline {
 public:
  PricedPipeline(const PipelineSetting& setting, const LayerMenus& menus);

  // Returns a lower bound of the step, in seconds without its overhead, or `enough`, which may be
  // infinite, if that is less; infinite if the least memory of layers excludes all plans; 0 if
  // `meter` ended it. Sets the prices that the methods below use: call it first, and after it ended
  // early call none of them. Counts states on `meter`.
  // O(stages * (layers + definitions * items)).
  double Bound(double enough, SearchMeter& meter);

  // Returns boundaries of stages that take about equally long at the prices, in the sense of
  // `shape`: the first layers of all stages, followed by the number of layers. Empty if none were
  // found. Boundaries that the space fixes are returned whatever the arguments. REQUIRES,
  // unchecked: `Bound` was finite.
  //
  //  factors   [stage] how much longer the stage takes than at its price; empty means 1
  std::vector<int> Partition(PartitionShape shape, const std::vector<double>& factors) const;

  // Returns whether both shapes are the same: under GPipe every stage has its share of the step,
  // whichever is in front; under 1F1B with more micro-batches than stages too (`SpreadStepBound`).
  bool HasOneShape() const;

  // Returns at most `limit` layouts, those in which all layers together are cheapest at the prices,
  // cheapest first; an empty `mask` allows every option. REQUIRES, unchecked: `Bound` was finite.
  std::vector<int> CheapestLayouts(const OptionMask& mask, int limit) const;

  // Returns the seconds of one micro-batch, both directions, at the prices. REQUIRES, unchecked:
  // `Bound` was called.
  double StageTime(int stage, int first_layer, int end_layer) const;

 private:
  // Least costs of a layer, [definition].
  struct Minima {
    // Seconds plus priced bytes, weighted as in the bound; `passes` without synchronisation.
    std::vector<double> priced;
    std::vector<double> passes;
    // Least seconds of a micro-batch regardless of memory, and least bytes regardless of time.
    std::vector<double> forward_backward;
    std::vector<double> memories;
  };

  // Sums over a range of layers as one stage.
  struct RangeSums {
    double forward_backward = 0.0;
    double priced = 0.0;
    double memory = 0.0;
  };

  bool FitsSomewhere() const;
  void SetPasses(const std::vector<LayerRate>& rates);
  void Balance(const std::vector<int>& boundaries);
  void SetPrices(const std::vector<int>& boundaries);
  double BestPrice(int stage, int first_layer, int end_layer) const;
  void SetMinima(int stage);
  void SetForwardBackwardTimes();
  bool FindWindows(double cutoff);
  void AddLayer(int stage, int layer, RangeSums& sums) const;
  bool Allows(int stage, int first, const RangeSums& sums, double cutoff) const;
  double LeastSum(double cutoff, SearchMeter& meter);
  double BoundBelow(double cutoff, SearchMeter& meter);
  bool Reach(double cutoff, PartitionShape shape, const std::vector<double>& factors,
             std::vector<int>& boundaries) const;
  double FixedSum() const;

  const PipelineSetting& setting_;
  const LayerMenus& menus_;
  const int definition_count_;
  // Definitions that layers have.
  std::vector<int> definitions_;
  // [stage] counted passes, and the seconds of messages on the same paths.
  std::vector<double> passes_;
  double messages_ = 0.0;
  // Numbers of layers at the two ends that need less transient memory than all others: a stage of
  // these alone has more room than `room_`.
  int first_layers_ = 0;
  int last_layers_ = 0;
  double room_ = 0.0;
  double largest_room_ = 0.0;
  // [layer] least seconds of the layers in front, one micro-batch in both directions.
  std::vector<double> forward_backward_before_;
  // [stage] the range of layers it may begin with.
  std::vector<int> earliest_;
  std::vector<int> latest_;
  // [stage]
  std::vector<double> prices_;
  std::vector<Minima> minima_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_
