// Bounds of interleaved plans within the memory of devices, by prices.
//
// Devices wait for one another and each has a budget. Weights that sum up to one make one
// time of what devices take, and prices add what they keep to it, less what the budgets are
// worth. Then every definition may choose by itself, and since no plan that fits costs more
// than the slowest device takes, the sum of the least is a bound for any weights and prices
// (a Lagrangian relaxation). Good ones are found by subgradients.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_RELAXATION_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_RELAXATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/interleaved/interleaved_loads.h"
#include "planner/planners/exact/pipeline/layer_menus.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Of one partition. Keeps a reference to the menus.
class InterleavedRelaxation {
 public:
  // What a layer of each definition counts, and what is left.
  struct Dual {
    struct Weights {
      double both = 0.0;
      double sync = 0.0;
      double states = 0.0;
      double kept = 0.0;

      double Of(const LayerItem& item) const {
        return both * item.both + sync * item.sync + states * item.states + kept * item.kept;
      }
    };
    // [definition]
    std::vector<Weights> weights;
    // [definition] the least of its items.
    std::vector<double> least;
    double constant = 0.0;
    // `constant` and all that is least: no plan that fits takes less.
    double bound = 0.0;
    // [device], and behind them that of the chain through all stages.
    std::vector<double> time_weights;
    // [device]
    std::vector<double> memory_prices;
  };

  InterleavedRelaxation(const PipelineSetting& setting, const LayerMenus& menus,
                        InterleavedLoads loads, int64_t micro_batch_count);

  // No plan of the partition with options of the menus takes less; infinite where none fits.
  // A first one, of few tries.
  double QuickBound();
  const InterleavedLoads& loads() const { return loads_; }
  // After `QuickBound`, where it is finite: better multipliers, for a bound of `wanted` if
  // that is possible, in so many steps.
  double Improve(double wanted, int step_count);

  // After `QuickBound`. Several, each with its bound.
  const std::vector<Dual>& duals() const { return duals_; }

  // Options that are good at the best multipliers and fit, as far as `LayerItem`s tell, into
  // `share` of the memory; nothing where that was not found.
  //
  // Gives [definition] the option; -1 for definitions no layer has.
  std::optional<std::vector<int>> Round(double share) const;

 private:
  // What devices take and keep, in seconds and bytes; and what the chain takes.
  struct Use {
    std::vector<double> times;
    std::vector<double> memories;
  };

  Dual DualOf(std::vector<double> time_weights, std::vector<double> memory_prices) const;
  // The least of all definitions, and what is chosen for it.
  void Choose(Dual& dual, std::vector<const LayerItem*>& chosen) const;
  Use UseOf(const std::vector<const LayerItem*>& chosen) const;
  double SearchLine(const std::vector<double>& time_weights, const std::vector<double>& direction);
  void Keep(Dual dual);
  void Fill(double share, std::vector<const LayerItem*>& chosen, Use& use) const;

  const LayerMenus& menus_;
  const InterleavedLoads loads_;
  const double micro_batches_;
  const int definition_count_;
  std::vector<int> definitions_;
  // [device]
  std::vector<double> rooms_;
  std::vector<Dual> duals_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_RELAXATION_H_
