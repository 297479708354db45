// All that a stage can do: the Pareto-optimal times of its layers within its memory.
//
// Layer by layer like the dynamic programme of Galvatron, with labels of (kept memory,
// forward, backward, synchronisation) instead of a grid of memory and one time, because
// the step is no sum: a stage that is not the slowest hides some of each. Exact: the step
// time of a schedule is monotone in all three times, so nothing else is ever needed.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Equal layers one after the other.
struct DefinitionRun {
  int definition_index = 0;
  int layer_count = 0;
  friend auto operator<=>(const DefinitionRun&, const DefinitionRun&) = default;
};

// What a device may hold, by the communicators it has: [communicator count] the tensors
// that fit (`MemoryOverheads`), negative where none do. Not ascending.
using BudgetByCommunicators = std::vector<Bytes>;

// A choice of these first and last layouts takes so long.
struct KnownWay {
  int first_layout = 0;
  int last_layout = 0;
  Seconds way;
};

// A stage to be solved.
struct StageQuestion {
  std::vector<DefinitionRun> runs;
  int64_t in_flight_micro_batch_count = 1;
  // The stage keeps what it sends until the backward pass.
  bool keeps_outputs = false;
  // Added to `StageOption::communicator_count` (the tied table's).
  int extra_communicator_count = 0;
  // `RuntimeTraits::gradient_bucket`: flat copies of gradients take no more.
  Bytes gradient_bucket;
  // Fewer things that make a choice worth keeping, for relaxations: forward and backward
  // count only together, synchronisation not at all. Choices then have both in `forward`,
  // and no `sync`.
  bool joins_passes = false;
  bool ignores_sync = false;
  // Where only ways count: choices that are known, of which no slower ones are wanted.
  std::vector<KnownWay> known;
  // With joined passes, of a synchronisation that is ignored: this share of it counts as a
  // pass all the same. In a pipeline of one stage, whose step is a sum, nothing is lost by it.
  double sync_share = 0.0;
  // Coarser times, for relaxations: those of a layer are the least of its definition and a
  // whole number of grains more, rounded down. Then few sums are different. 0: as they are.
  Seconds pass_grain;
  Seconds sync_grain;
  // [layout] another one that stands for it, in relaxations too: moves between layouts of one
  // class take no time, those between classes as long as the shortest. Empty: each is its own.
  // Choices then have these layouts.
  std::vector<int> layout_classes;
  // Off where nothing is received or nothing is sent: choices are then compared whatever
  // their first or last layout.
  bool first_layout_matters = true;
  bool last_layout_matters = true;

  int ClassOf(int layout) const { return layout_classes.empty() ? layout : layout_classes[layout]; }
};

// A necessary condition of plans worth finding:
// forward * f + backward * b + sync * s <= most.
struct LinearCut {
  double forward = 0.0;
  double backward = 0.0;
  double sync = 0.0;
  double most = 0.0;
};

// One way to run the stage.
struct StageChoice {
  Seconds forward;
  Seconds backward;
  Seconds sync;
  int first_layout = 0;
  int last_layout = 0;
  // [layer] index into the options of its definition.
  std::vector<int> options;
};

struct StageFront {
  // Ascending by (first_layout, last_layout, forward + backward, sync). Each fits and
  // satisfies all cuts. Of the same layouts, as far as they matter, none is nowhere better
  // than another. Every assignment of the stage that fits and satisfies all cuts is matched:
  // some choice of the same layouts is nowhere worse. All times up to one part in 10^12.
  std::vector<StageChoice> choices;
  // False where a limit ended the search; then some may be missing.
  bool is_complete = true;
};

// Only options of `allowed`; all where it is empty. What fits is what `PlanEvaluator` says
// by its upper bound of tensors; that the device also shows what its allocator keeps for
// later is not known here.
//
// Equal layers are counts, so long runs cost no more than short ones. Labels are few where
// the cuts are tight: within 1 % of the least, some tens. Counts labels on `meter`.
StageFront SolveStage(const OptionTable& table, const StageQuestion& question,
                      const BudgetByCommunicators& budget, absl::Span<const LinearCut> cuts,
                      const OptionMask& allowed, SearchMeter& meter);

// A lower bound of forward * f + backward * b + sync * s over all assignments that fit;
// infinite when none does. Lagrangian, O(runs * options * prices).
double StageBound(const OptionTable& table, const StageQuestion& question,
                  const BudgetByCommunicators& budget, const LinearCut& weights);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_
