// Pipelines of many layers: a bound and good partitions by one price of memory for each
// stage, at a cost that does not depend on which ranges of layers stages may have.
//
// With a price, every layer of a stage takes its cheapest option by itself, and a stage
// costs a difference of sums over layers. On an average of paths through the pipeline every
// stage counts some number of passes (path_counts.h), and the step is at least their least sum
// over all partitions, which a dynamic programme over (stage, layer) finds in one step each.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/layer_menus.h"
#include "planner/planners/exact/pipeline/path_counts.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Of one candidate with the options of menus. Keeps references to its arguments.
class PricedPipeline {
 public:
  PricedPipeline(const PipelineSetting& setting, const LayerMenus& menus);

  // No plan takes less, without the overhead of steps, or than `enough`, whichever is less;
  // infinite where the least memory of layers excludes all plans. Sets prices. O(stages *
  // (layers + definitions * items)). 0 when `meter` has ended it.
  double Bound(double enough, SearchMeter& meter);

  // After `Bound`, where it is finite: boundaries of stages that are about equally long at the
  // prices; empty where none were found.
  //
  //   factors   [stage] how much longer stages take than at their prices; empty: 1
  std::vector<int> Partition(const std::vector<double>& factors) const;

  // After `Bound`, where it is finite: layouts in which all layers are cheapest at the prices,
  // the cheapest first, at most `most` of them.
  std::vector<int> CheapestLayouts(const OptionMask& mask, int most) const;

  // Seconds of a micro-batch, both ways, as the prices have it.
  double StageTime(int stage, int first_layer, int end_layer) const;

 private:
  // Least costs of a layer, by definition.
  struct Minima {
    // Seconds and priced bytes, weighted as in the bound; and without synchronisation.
    std::vector<double> priced;
    std::vector<double> passes;
    // Seconds of a micro-batch, whatever the memory; and bytes, whatever the time.
    std::vector<double> ways;
    std::vector<double> memories;
  };

  // Of some layers as one stage.
  struct RangeSums {
    double way = 0.0;
    double priced = 0.0;
    double memory = 0.0;
  };

  bool FitsSomewhere() const;
  void SetPasses(const std::vector<LayerRate>& rates);
  void Balance(const std::vector<int>& boundaries);
  void SetPrices(const std::vector<int>& boundaries);
  double BestPrice(int stage, int first_layer, int end_layer) const;
  void SetMinima(int stage);
  void SetWays();
  bool FindWindows(double most);
  void AddLayer(int stage, int layer, RangeSums& sums) const;
  bool Allows(int stage, int first, const RangeSums& sums, double most) const;
  double LeastSum(double most, SearchMeter& meter);
  double BoundBelow(double most, SearchMeter& meter);
  bool Reach(double most, const std::vector<double>& factors, std::vector<int>& boundaries) const;
  double FixedSum() const;

  const PipelineSetting& setting_;
  const LayerMenus& menus_;
  const int definition_count_;
  // Definitions that layers have.
  std::vector<int> definitions_;
  // [stage] passes that count, and what messages take on the same paths.
  std::vector<double> passes_;
  double messages_ = 0.0;
  // Layers at both ends that need less while they run than all others: a stage of these
  // alone has more room than `room_`.
  int first_layers_ = 0;
  int last_layers_ = 0;
  double room_ = 0.0;
  double largest_room_ = 0.0;
  // [layer] the least layers in front take, one micro-batch both ways.
  std::vector<double> ways_;
  // [stage] where it may begin.
  std::vector<int> earliest_;
  std::vector<int> latest_;
  // [stage]
  std::vector<double> prices_;
  std::vector<Minima> minima_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PRICED_PIPELINE_H_
