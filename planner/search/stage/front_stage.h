// What a stage can do, as the search of its front sees it: bytes that add up over layers,
// and what bounds them.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// A way to run a layer, in this stage.
struct FrontOption {
  // Index into the options of the definition.
  int option = 0;
  int layout = 0;
  // As in `StageOption`.
  Seconds forward;
  Seconds backward;
  Seconds sync;
  // States, and activations of all micro-batches in flight.
  Bytes held;
  Bytes transient;
  // States and what else there is in the optimizer's step; the same with all buckets.
  Bytes step_held;
  Bytes step_held_with_bucket;
  // Tensors that fit into a device with the communicators of this option.
  Bytes budget;
};

// Layers of one definition.
struct FrontKind {
  // Ascending by `option`.
  std::vector<FrontOption> options;
  // [from * layout_count + to] forward and backward together; may be infinite.
  std::vector<Seconds> transitions;
};

// Equal layers one after the other; `kind` indexes `FrontStage::kinds`.
struct FrontRun {
  int kind = 0;
  int layer_count = 0;
};

struct FrontStage {
  int layout_count = 1;
  // Each with a layer.
  std::vector<FrontKind> kinds;
  // At least one.
  std::vector<FrontRun> runs;
  // [layout of the last layer] what the stage holds of its outputs; empty where nothing.
  std::vector<Bytes> output_held;
  // Whether the optimizer's step holds what other moments do not.
  bool has_step = false;
  Bytes gradient_bucket;
  // As in `StageQuestion`; options have all in `forward` where passes are joined.
  bool joins_passes = false;
  std::vector<KnownWay> known;
  bool first_layout_matters = true;
  bool last_layout_matters = true;
};

// Without options that fit nowhere.
FrontStage MakeFrontStage(const OptionTable& table, const StageQuestion& question,
                          const BudgetByCommunicators& budget, const OptionMask& allowed);

// `SolveStage` of such a stage.
StageFront SolveFront(const FrontStage& stage, absl::Span<const LinearCut> cuts,
                      SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_
