// A stage in which no layer may use more than a given transient memory: what is
// left is a choice between memory and time alone.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/layer_assignment.h"

namespace parplan {

// An option that the cap allows.
struct CappedOption {
  // Index into `LayerChoices::options`.
  int option = 0;
  int layout = 0;
  int64_t ticks = 0;
  // Bytes kept above the least any option of the layer keeps.
  int64_t extra_bytes = 0;
};

// Layers that cost alike, under the cap.
struct CappedChoices {
  // Ascending by `option`; of two options of a layout where one is nowhere
  // better, only the other.
  std::vector<CappedOption> options;
  // Layouts that occur among them, ascending.
  std::vector<int> layouts;
  // [from * layout_count + to], in ticks.
  std::vector<int64_t> transitions;
};

// The stage under a cap.
struct CappedStage {
  int layout_count = 1;
  std::vector<CappedChoices> kinds;
  std::vector<int> kind_of_layer;
  // What the layers keep at the least, and the cap.
  Bytes least_kept;
  Bytes cap;
  // What a budget leaves for `extra_bytes`. Negative where nothing fits.
  int64_t ExtraRoom(Bytes budget) const { return (budget - cap - least_kept).count(); }
  int layer_count() const { return static_cast<int>(kind_of_layer.size()); }
};

// Longest time any assignment of `stage` can take.
Seconds LongestTime(const StageChoices& stage);

// The values the largest transient of an assignment can have, ascending.
std::vector<Bytes> TransientCaps(const StageChoices& stage);

// `stage` with options of at most `cap` transient. Nothing where a layer has
// none.
std::optional<CappedStage> CapStage(const StageChoices& stage, Bytes cap, const TickScale& scale);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_
