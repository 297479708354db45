// The Pareto front of a stage: the times its layers can have within its memory.
//
// Layer by layer like the dynamic programme of Galvatron, but with labels of (kept memory, forward,
// backward, synchronisation) instead of a grid of memory and one time. A single time is not enough,
// because the step of a pipeline is not a sum: a stage that is not the slowest hides part of each
// time. The step time of a schedule is monotone in all three times, so the Pareto-optimal triples
// are enough, and the search is exact. Used by `exact` (front_cache.h).
//
// Words (docs/glossary.md): a label is a partial solution of a dynamic programme with its costs;
// options have one layout if activations move between them at no cost; an option is a strategy of a
// layer definition with its costs (option_table.h); a definition is the sizes of a layer, the same
// for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Equal consecutive layers.
struct DefinitionRun {
  // Index into `ModelSpec::layer_definitions`.
  int definition_index = 0;
  int layer_count = 0;
  friend auto operator<=>(const DefinitionRun&, const DefinitionRun&) = default;
};

// The bytes of tensors that fit on a device, [number of communicators it has] (`MemoryOverheads`);
// negative if nothing fits. Non-increasing.
using BudgetByCommunicators = std::vector<Bytes>;

// A time that the stage is known to reach with these first and last layouts.
struct KnownTime {
  int first_layout = 0;
  int last_layout = 0;
  Seconds time;
};

// A stage to be solved.
struct StageQuestion {
  std::vector<DefinitionRun> runs;
  int64_t in_flight_micro_batch_count = 1;
  // Whether the stage keeps what it sends until the backward pass.
  bool keeps_outputs = false;
  // Communicators beyond `StageOption::communicator_count` (those of the tied table).
  int extra_communicator_count = 0;
  // `RuntimeTraits::gradient_bucket`: upper bound of the flat copies of gradients.
  Bytes gradient_bucket;
  // Relaxations that leave fewer Pareto-optimal choices. If `joins_passes`, only the sum of forward
  // and backward counts, choices have it in `forward`, and cuts weigh it by `LinearCut::forward`;
  // if `ignores_sync`, synchronisation does not count, and choices have a `sync` of 0.
  bool joins_passes = false;
  bool ignores_sync = false;
  // Times already reached, if only the sum of forward and backward counts; choices that are no
  // faster are not wanted. Ignored unless passes are joined, no option has a synchronisation, and
  // there is one cut, which weighs `forward` and not `sync`.
  std::vector<KnownTime> known;
  // Share of an ignored synchronisation that is added to joined passes. In a pipeline of one stage,
  // whose step is a sum, the full share loses nothing.
  double sync_share = 0.0;
  // Grains for relaxations: the time of a layer becomes the least of its definition plus a whole
  // number of grains, rounded down. Then few sums differ. 0: exact times.
  Seconds pass_grain;
  Seconds sync_grain;
  // [layout] the layout that stands for it, for relaxations: moves between layouts of one class
  // take no time, moves between classes as long as the shortest one. Empty: each layout stands for
  // itself. Choices then have these layouts.
  std::vector<int> layout_classes;
  // False if nothing is received (first) or nothing is sent (last): choices are then compared
  // regardless of that layout.
  bool first_layout_matters = true;
  bool last_layout_matters = true;

  // Returns the layout that stands for `layout` by `layout_classes`.
  int ClassOf(int layout) const { return layout_classes.empty() ? layout : layout_classes[layout]; }
};

// A necessary condition of plans worth finding: forward * f + backward * b + sync * s <= limit,
// where f, b and s are the seconds of a choice. A cut with an infinite limit is ignored.
struct LinearCut {
  double forward = 0.0;
  double backward = 0.0;
  double sync = 0.0;
  double limit = 0.0;
};

// One way to run the stage.
struct StageChoice {
  // Times of both passes of a micro-batch, and of a step's synchronisation of gradients.
  Seconds forward;
  Seconds backward;
  Seconds sync;
  // Layouts of the activations that the first layer reads and the last one makes.
  int first_layout = 0;
  int last_layout = 0;
  // [layer] index into the options of its definition.
  std::vector<int> options;
};

// The Pareto-optimal ways to run a stage.
struct StageFront {
  // Ascending by (first_layout, last_layout, forward + backward, sync). Each fits and satisfies all
  // cuts. Among choices of the same layouts, as far as these matter, none dominates another. For
  // every assignment that fits and satisfies all cuts, some choice of the same layouts, or a time
  // of `StageQuestion::known`, is at least as good. All times up to one part in 10^12.
  std::vector<StageChoice> choices;
  // False if a limit ended the search; choices may then be missing.
  bool is_complete = true;
};

// Computes the front with the options of `allowed`; with all if it is empty. Without `cuts` every
// Pareto-optimal choice is wanted. REQUIRES: at least one run, and a `budget` for every number of
// communicators an option can need; aborts otherwise. An assignment fits if `PlanEvaluator` says so
// by its upper bound of tensors; memory the allocator keeps for later is not considered.
//
// Equal layers are counted, so a long run costs no more than a short one. Labels are few if the
// cuts are tight: some tens within 1 % of the least time. Counts labels on `meter`.
StageFront SolveStage(const OptionTable& table, const StageQuestion& question,
                      const BudgetByCommunicators& budget, absl::Span<const LinearCut> cuts,
                      const OptionMask& allowed, SearchMeter& meter);

// Returns a lower bound of forward * f + backward * b + sync * s over all assignments of the
// table's options that fit; infinite only if none fits. It leaves out resharding, and reads neither
// the limit of `weights` nor the relaxations of the question. Lagrangian relaxation, O(runs *
// options * prices) for each range of transient memory (memory_price.h); only for the first if
// memory does not bind. REQUIRES, unchecked: as `SolveStage`.
double StageBound(const OptionTable& table, const StageQuestion& question,
                  const BudgetByCommunicators& budget, const LinearCut& weights);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_STAGE_FRONT_H_
