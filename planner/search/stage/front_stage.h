// A stage as the search of its Pareto front sees it: bytes that add up over layers, and the budgets
// that limit them. `SolveStage` makes it of its question.
//
// Words (docs/glossary.md): options have one layout if activations move between them at no cost; an
// option is a strategy of a layer definition with its costs (option_table.h); micro-batches in
// flight have done their forward pass and not yet their backward pass; a definition is the sizes of
// a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// An option of a layer in this stage.
struct FrontOption {
  // Index into the options of the definition, and the class of the layout
  // (`StageQuestion::ClassOf`).
  int option = 0;
  int layout = 0;
  // The times of `StageOption`, changed by the relaxations of the question.
  Seconds forward;
  Seconds backward;
  Seconds sync;
  // States and the activations of all micro-batches in flight.
  Bytes held;
  // Memory held only while the layer runs.
  Bytes transient;
  // States and everything else held in the optimizer's step; `step_held_with_bucket` includes the
  // gradient bucket of the layer. Both are 0 unless `FrontStage::has_step`.
  Bytes step_held;
  Bytes step_held_with_bucket;
  // Bytes of tensors that fit on a device with the communicators of this option.
  Bytes budget;
};

// Layers of one definition.
struct FrontKind {
  // Ascending by `option`.
  std::vector<FrontOption> options;
  // [from * layout_count + to] forward and backward time together; may be infinite.
  std::vector<Seconds> transitions;
};

// Equal layers one after the other; `kind` indexes `FrontStage::kinds`.
struct FrontRun {
  int kind = 0;
  int layer_count = 0;
};

// A stage with the options that may fit.
struct FrontStage {
  int layout_count = 1;
  // The kinds; each has a layer.
  std::vector<FrontKind> kinds;
  // The runs; at least one.
  std::vector<FrontRun> runs;
  // [layout of the last layer] bytes the stage holds of its outputs; empty if none.
  std::vector<Bytes> output_held;
  // Whether the optimizer's step holds memory that other moments do not; and the largest flat copy
  // of gradients in it (`StageQuestion::gradient_bucket`).
  bool has_step = false;
  Bytes gradient_bucket;
  // Relaxations, as in `StageQuestion`; if passes are joined, options have the sum in `forward`.
  bool joins_passes = false;
  std::vector<KnownTime> known;
  bool first_layout_matters = true;
  bool last_layout_matters = true;
};

// Returns the stage of a question. A kind is made of each definition, in order of first occurrence,
// and neighbouring runs of one definition become one. Options that by themselves need more than
// their budget are left out, so a kind may have no option. REQUIRES: the question has a run, and
// `budget` an entry for each number of communicators; aborts otherwise. `allowed` is as in
// `SolveStage`.
FrontStage MakeFrontStage(const OptionTable& table, const StageQuestion& question,
                          const BudgetByCommunicators& budget, const OptionMask& allowed);

// Solves such a stage, as `SolveStage` does.
StageFront SolveFront(const FrontStage& stage, absl::Span<const LinearCut> cuts,
                      SearchMeter& meter);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_STAGE_H_
