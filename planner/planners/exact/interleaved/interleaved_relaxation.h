// Lower bounds of interleaved plans within the memory of devices: a Lagrangian relaxation.
//
// Devices wait for one another, and each has a memory budget. Weights that sum up to one combine
// the times of the devices into one, and prices add the memory they use less the memory they have.
// Then every definition chooses independently, and because no plan that fits costs more than the
// time of the slowest device, the sum of the minima is a lower bound for any weights and prices.
// Good weights and prices are found by subgradient steps. Used by the searches of this folder.
//
// Words (docs/glossary.md): a menu is the costs of a layer under its options, without those that
// are nowhere better than others; a price is the Lagrangian multiplier of memory, in seconds per
// byte; an option is a strategy of a layer definition with its costs (option_table.h); a partition
// is the number of layers of each stage; a definition is the sizes of a layer, the same for equal
// layers.

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

// The relaxation of one partition. Bounds are in seconds, without the overhead of a step. Keeps a
// reference to the menus, which must outlive it.
//
//   InterleavedRelaxation prices(setting, menus, std::move(loads), micro_batch_count);
//   double bound = prices.QuickBound();
//   if (bound < wanted) bound = prices.Improve(wanted, /*step_count=*/120);
class InterleavedRelaxation {
 public:
  // One pair of weights and prices, with the resulting bound.
  struct Dual {
    // The cost of all layers of a definition together, in seconds, as weights of the fields of the
    // `LayerItem` that each of them has.
    struct Weights {
      double forward_backward = 0.0;
      double sync = 0.0;
      double states = 0.0;
      double kept = 0.0;

      // Returns the cost of an item by these weights.
      double Of(const LayerItem& item) const {
        return forward_backward * item.forward_backward + sync * item.sync + states * item.states +
               kept * item.kept;
      }
    };
    // [definition] cost weights.
    std::vector<Weights> weights;
    // [definition] the least cost (`Weights::Of`) over its items, that of all its layers together.
    std::vector<double> least;
    double constant = 0.0;
    // `constant` plus the sum of `least`: a lower bound of the step of any plan that fits.
    double bound = 0.0;
    // [device], followed by the weight of the path through all stages.
    std::vector<double> time_weights;
    // [device] seconds per byte.
    std::vector<double> memory_prices;
  };

  // `loads` are those of the setting and of this number of micro-batches, which is not checked. The
  // memory of a device is the setting's largest budget less the least transient of its layers.
  InterleavedRelaxation(const PipelineSetting& setting, const LayerMenus& menus,
                        InterleavedLoads loads, int64_t micro_batch_count);

  // Returns a first lower bound of the partition's plans with options of the menus, from a few
  // trial multipliers. The bound is infinite if the least memory of the layers of some device, by
  // their `LayerItem`s, is more than the device has. It may be finite although no plan fits. Call
  // it once, before the others.
  double QuickBound();
  // Returns the argument of the constructor.
  const InterleavedLoads& loads() const { return loads_; }
  // Improves the multipliers in at most `step_count` steps, or until the bound reaches `wanted`,
  // which may be infinite. Returns the best bound so far, which may be above `wanted`. REQUIRES:
  // `QuickBound` was finite, which is not checked.
  double Improve(double wanted, int step_count);

  // Returns the multipliers tried so far that are worth keeping, at most 6, each with its bound,
  // the largest bound first; none before `QuickBound` or if that was infinite. Valid until the next
  // call of `QuickBound` or `Improve`.
  const std::vector<Dual>& duals() const { return duals_; }

  // Returns, for each definition, an option that is good at the best multipliers, such that
  // together they fit into `share`, above 0 and up to 1, of the memory as far as `LayerItem`s can
  // show; -1 for definitions no layer has. Returns nothing if 60 rounds of rising prices find no
  // such choice, which proves nothing. Whether neighbouring layers may have the options is not
  // asked. REQUIRES: `QuickBound` was finite, which is not checked.
  std::optional<std::vector<int>> Round(double share) const;

 private:
  // Seconds and bytes of each device, and after the devices the seconds of the path through all
  // stages.
  struct Use {
    std::vector<double> times;
    std::vector<double> memories;
  };

  Dual DualOf(std::vector<double> time_weights, std::vector<double> memory_prices) const;
  // Chooses the cheapest item of each definition and sets the bound.
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
  // [device] bytes available.
  std::vector<double> rooms_;
  std::vector<Dual> duals_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_RELAXATION_H_
