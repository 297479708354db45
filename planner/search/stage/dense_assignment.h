// Galvatron's dynamic programme over layers and memory as its authors' code has it (docs/papers.md
// 1.3): memory is a whole number of units, and every number of units is a state.
//
// C(L,E,S) = min over S' { C(L-1, E - O(L,S), S') + R(L,S',S) } + c(L,S), C(0,*) = 0; the first
// layer reshards nothing. Among equal costs the lowest strategy wins, from the last layer to the
// first, as if an argmin were stored in every state.
//
// The answer equals that of the plain programme, which takes O(L * E * S^2). This one takes O(L * E
// * (S + K^2)) for K layouts: strategies that share a layout share R, so the minimum over S' is
// taken per layout. States that no plan of the stage can reach, or that repeat their neighbour
// because memory does not bind, are skipped. Only costs are stored; the assignment is traced back
// by looking for the predecessor that gives the cost. Memory is O(sqrt(L) * E * K) if all rows
// would exceed `kMaxRowBytes`. Used by `GalvatronStages` and by the studies of the papers' code.
//
// Words (docs/glossary.md): a meter counts states and says when a search must end (search_meter.h);
// options have one layout if activations move between them at no cost; an option is a strategy of a
// layer definition with its costs (option_table.h); a tick is a power of two of a second, to which
// times are rounded (tick_scale.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_DENSE_ASSIGNMENT_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_DENSE_ASSIGNMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// One strategy of a layer.
struct DenseOption {
  // Below `DenseStage::layout_count`. Strategies share a layout if activations move between them at
  // no cost.
  int layout = 0;
  Seconds time;
  // Memory in units, not negative.
  int64_t units = 0;
};

// Layers that cost alike.
struct DenseKind {
  // The options; at least one.
  std::vector<DenseOption> options;
  // [from * layout_count + to] time to move into a layer of this kind. Finite, not negative.
  std::vector<Seconds> transitions;
};

// A stage with memory in units.
struct DenseStage {
  int layout_count = 1;
  std::vector<DenseKind> kinds;
  // [layer] index into `kinds`; at least one layer.
  std::vector<int> kind_of_layer;
};

// The best assignment within a capacity.
struct DenseSolution {
  // [layer] index into the options of its kind.
  std::vector<int> options;
  // Sum of option times and transitions.
  Seconds time;
  int64_t units = 0;
};

// The table of one stage. Not thread-safe. Times are rounded to ticks of at most 2^-28 of an upper
// bound of the time of any assignment, but the times of solutions are sums of those given.
class DenseAssignment {
 public:
  // Rows of all layers are stored up to this many bytes (256 MiB); above it, one row in sqrt(L) is
  // stored and the others are computed again while tracing back, at about twice the time. Not
  // measured for other values.
  static constexpr int64_t kMaxRowBytes = int64_t{1} << 28;

  // Computes the table for capacities from `least_capacity` to `capacity` units. Keeps references
  // to `stage` and `meter`. Counts states on `meter`; if it ends the search, `complete()` is false
  // and there is no answer. REQUIRES: `stage` has a layer, times are finite, and least_capacity <=
  // capacity, else this aborts. Nothing fits in a negative capacity.
  DenseAssignment(const DenseStage& stage, int64_t least_capacity, int64_t capacity,
                  SearchMeter& meter, int64_t max_row_bytes = kMaxRowBytes);

  // Returns whether the table was computed to its end.
  bool complete() const { return complete_; }

  // Returns the best assignment of at most `capacity` units; nothing if there is none. May compute
  // rows again, without asking the meter. Any capacity from the units of a solution up to the
  // capacity it was asked for gives the same solution. REQUIRES: `complete()`, else this aborts;
  // least_capacity <= capacity <= the constructor's, which is not checked.
  std::optional<DenseSolution> At(int64_t capacity);

 private:
  // Costs in ticks after a layer, by layout, for `first` to `last` units. Beyond `last` they equal
  // those at `last`; before `first` nothing fits.
  struct Row {
    int64_t first = 0;
    int64_t last = 0;
    std::vector<int32_t> ticks;  // [layout * width + units - first]
    int64_t width() const { return last - first + 1; }
  };
  struct Option {
    int32_t ticks = 0;
    int layout = 0;
    int64_t units = 0;
  };
  struct Kind {
    std::vector<Option> options;
    // Layouts that occur among the options.
    std::vector<int> layouts;
    std::vector<int32_t> transitions;
    int64_t least_units = 0;
    int64_t max_units = 0;
  };

  const Kind& KindOf(int layer) const { return kinds_[stage_.kind_of_layer[layer]]; }
  void MakeTicks();
  void MakeBands(int64_t least_capacity, int64_t capacity);
  // Computes the rows of layers `first` to `last` from the row before `first`.
  void Fill(int first, int last);
  void Advance(int layer);
  int32_t Tick(int layer, int64_t units, int layout) const;
  // Returns the least cost of moving the result of the layers before `layer` into `layout`.
  int32_t Arrival(int layer, int64_t units, int layout) const;
  // Returns the lowest option of `layer` under any of `layouts` whose cost equals that of its
  // layout.
  int LowestOption(int layer, int64_t units, const std::vector<int>& layouts) const;
  void NeedRow(int layer);

  const DenseStage& stage_;
  SearchMeter& meter_;
  bool complete_ = true;
  std::vector<Kind> kinds_;
  // [layer + 1], where row 0 is that of no layer. Rows that were dropped have no ticks.
  std::vector<Row> rows_;
  // Rows whose index is a multiple of `block_` are always stored; of the others, only those of
  // block `kept_block_`.
  int block_ = 1;
  int kept_block_ = -1;
  std::vector<int32_t> arrivals_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_DENSE_ASSIGNMENT_H_
