// What layers may cost, in as few numbers as bounds by prices need.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// What one layer of a definition may cost: seconds of a micro-batch both ways and of a
// step's synchronisation, bytes all the time and of each micro-batch in flight.
struct LayerItem {
  double both = 0.0;
  double sync = 0.0;
  double states = 0.0;
  double kept = 0.0;
  // Index into the options of the definition.
  int option = 0;
};
LayerItem ItemOf(const StageOption& option, int index);

// Of a table under a mask: by definition the items of which no other is nowhere worse.
class LayerMenus {
 public:
  // A `layout` that is not negative leaves out others, where a definition has it.
  LayerMenus(const PipelineSetting& setting, const OptionMask& mask, int layout = -1);

  // Of definitions that layers have; empty for others.
  const std::vector<LayerItem>& items(int definition) const { return items_[definition]; }
  double least_transient(int definition) const { return least_transients_[definition]; }

 private:
  std::vector<std::vector<LayerItem>> items_;
  std::vector<double> least_transients_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_LAYER_MENUS_H_
