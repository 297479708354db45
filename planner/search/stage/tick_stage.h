// A stage with its times in ticks, whole numbers that add up exactly, and without the options that
// its cuts exclude. `CasesOf` (front_case.h) makes the cases that are searched of it.
//
// Words (docs/glossary.md): a cut is a linear inequality on the times of a stage that every wanted
// plan satisfies; half a resharding is the part that one of the two passes takes; options have one
// layout if activations move between them at no cost; an option is a strategy of a layer definition
// with its costs (option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_TICK_STAGE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_TICK_STAGE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/front_stage.h"

namespace parplan {

// Sums over some layers, in ticks and bytes. The three numbers of bytes are those of `FrontOption`:
// `held`, `step_held` and `step_held_with_bucket`.
struct FrontSum {
  // Times of both passes of a micro-batch and of a step's synchronisation, in ticks (tick_scale.h).
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t sync = 0;
  int64_t bytes = 0;
  int64_t step_bytes = 0;
  int64_t step_bytes_with_bucket = 0;

  // Adds `other`, `count` times.
  void Add(const FrontSum& other, int64_t count) {
    forward += other.forward * count;
    backward += other.backward * count;
    sync += other.sync * count;
    bytes += other.bytes * count;
    step_bytes += other.step_bytes * count;
    step_bytes_with_bucket += other.step_bytes_with_bucket * count;
  }
  friend FrontSum operator-(const FrontSum& a, const FrontSum& b) {
    return {a.forward - b.forward,
            a.backward - b.backward,
            a.sync - b.sync,
            a.bytes - b.bytes,
            a.step_bytes - b.step_bytes,
            a.step_bytes_with_bucket - b.step_bytes_with_bucket};
  }
  // Returns whether none of the three times is longer than that of `other`.
  bool IsNowhereSlower(const FrontSum& other) const {
    return forward <= other.forward && backward <= other.backward && sync <= other.sync;
  }
};

// The stage with times in ticks.
struct TickStage {
  // A `FrontOption` in ticks and bytes.
  struct Option {
    // `FrontOption::option`: an index into the options of the definition.
    int option = 0;
    int layout = 0;
    FrontSum cost;
    int64_t transient = 0;
    int64_t budget = 0;
  };
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

  int layout_count = 1;
  // The options, [kind]; none for a kind none of whose options is within the cuts.
  std::vector<std::vector<Option>> options;
  // [kind][from * layout_count + to] half of a transition, the part of one of the two passes, in
  // ticks; or `kNever`.
  std::vector<std::vector<int64_t>> half_resharding;
  // [kind] the least half resharding, in ticks, through any layouts (`ShortestHalfResharding`);
  // empty for a kind that no run of several layers behind the first run has.
  std::vector<std::vector<double>> shortest_half_resharding;
  // The runs, whose `kind` indexes the lists above.
  std::vector<FrontRun> runs;
  // [layout of the last layer] bytes the stage holds of its outputs; empty if none.
  std::vector<int64_t> output_bytes;
  // The next five are as in `FrontStage`, the bucket in bytes.
  bool has_step = false;
  int64_t gradient_bucket = 0;
  bool joins_passes = false;
  bool first_layout_matters = true;
  bool last_layout_matters = true;
  // [first layout * layout count + last layout] if only the sum of forward and backward matters: a
  // time that is already reached, in ticks, or `kNever`. Empty if other times matter too, or if
  // there is not exactly one cut. A layout that does not matter counts as 0.
  std::vector<int64_t> known_times;
  // The cuts, with limits in ticks, enlarged by what rounding can have moved; at least one.
  std::vector<LinearCut> cuts;

  // Returns the index into `known_times` of a pair of first and last layout.
  int EndsOf(int first_layout, int last_layout) const {
    return (first_layout_matters ? first_layout * layout_count : 0) +
           (last_layout_matters ? last_layout : 0);
  }
};

// Returns `stage` with its times rounded to ticks, and the cuts that have a finite limit with
// limits that rounding cannot make too tight: an assignment that satisfies `cuts` also satisfies
// those of the result. Options that no assignment within the cuts has are left out. Keeps no
// reference.
TickStage ToTicks(const FrontStage& stage, absl::Span<const LinearCut> cuts);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_TICK_STAGE_H_
