// The Pareto-optimal costs of layers, reduced to the few numbers that bounds by prices need. Used
// by `PricedPipeline` and the searches of interleaved plans.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; an option is a
// strategy of a layer definition with its costs (option_table.h); micro-batches in flight have done
// their forward pass and not yet their backward pass; a definition is the sizes of a layer, the
// same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The cost of one layer under one option: seconds of both passes of a micro-batch and of a step's
// synchronisation, bytes held throughout and per micro-batch in flight.
struct LayerItem {
  double forward_backward = 0.0;
  double sync = 0.0;
  double states = 0.0;
  double kept = 0.0;
  // Index into the options of the definition.
  int option = 0;
};
// Returns the cost of an option; `index` becomes `LayerItem::option`.
LayerItem ItemOf(const StageOption& option, int index);

// The menus of a table under a mask: for each definition its items that no other dominates in the
// two times and the two sizes. Of equal items only the first option's is there.
class LayerMenus {
 public:
  // An empty `mask` allows every option. If `layout` is not negative, definitions that have options
  // of it that the mask allows offer only those. Once `meter` has stopped, definitions not reached
  // have no items, so callers ask it before they use the menus.
  LayerMenus(const PipelineSetting& setting, const OptionMask& mask, SearchMeter& meter,
             int layout = -1);

  // Returns the items, those of the least `forward_backward` first; empty for definitions no layer
  // has or of which the mask allows nothing. Valid as long as the menus.
  const std::vector<LayerItem>& items(int definition) const { return items_[definition]; }
  // Returns the least transient bytes of an offered option, dominated ones included; infinite where
  // there are no items.
  double least_transient(int definition) const { return least_transients_[definition]; }

 private:
  std::vector<std::vector<LayerItem>> items_;
  std::vector<double> least_transients_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_
