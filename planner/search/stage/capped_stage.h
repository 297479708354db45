// A stage whose layers may not exceed a given transient memory; what remains is a trade of kept
// memory against time. Used by `AssignStrategies`, `Relax` and `StepLowerBound`.
//
// Words (docs/glossary.md): options have one layout if activations move between them at no cost; an
// option is a strategy of a layer definition with its costs (option_table.h); a tick is a power of
// two of a second, to which times are rounded (tick_scale.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/layer_assignment.h"

namespace parplan {

// An option within the cap.
struct CappedOption {
  // Index into `LayerChoices::options`.
  int option = 0;
  // The option's layout and time.
  int layout = 0;
  int64_t ticks = 0;
  // Bytes kept beyond the least that any option of the layer within the cap keeps.
  int64_t extra_bytes = 0;
};

// The options, under the cap, of layers that cost alike. There may be none if no layer of the stage
// has this kind.
struct CappedChoices {
  // Ascending by `option`. An option dominated by another of its layout is left out.
  std::vector<CappedOption> options;
  // Layouts that occur among the options, ascending.
  std::vector<int> layouts;
  // [from * layout_count + to] transition times in ticks.
  std::vector<int64_t> transitions;
};

// The stage under a cap.
struct CappedStage {
  int layout_count = 1;
  std::vector<CappedChoices> kinds;
  // [layer] index into `kinds`, which are those of `StageChoices` in their order.
  std::vector<int> kind_of_layer;
  // Sum of the least bytes each layer keeps, and the cap on transient memory.
  Bytes least_kept;
  Bytes cap;
  // Returns the bytes of `budget` that are left for `extra_bytes`; negative if nothing fits.
  int64_t ExtraRoom(Bytes budget) const { return (budget - cap - least_kept).count(); }
  // Returns the number of layers of the stage.
  int layer_count() const { return static_cast<int>(kind_of_layer.size()); }
};

// Returns an upper bound of the time that any assignment of `stage` takes.
Seconds LongestTime(const StageChoices& stage);

// Returns the values the largest transient of an assignment can have, ascending and distinct; none
// without a run. REQUIRES: every kind that a layer has, has an option; aborts otherwise.
std::vector<Bytes> TransientCaps(const StageChoices& stage);

// Returns `stage` restricted to options of at most `cap` transient bytes; nothing if a layer has
// none. REQUIRES, unchecked: `scale` is made of `LongestTime(stage)`, so that sums of ticks are
// exact.
std::optional<CappedStage> CapStage(const StageChoices& stage, Bytes cap, const TickScale& scale);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_CAPPED_STAGE_H_
