// Galvatron's dynamic programme over layers and memory as published: memory is a whole
// number of units, and every number of them is a state.
//
// C(L,E,S) = min over S' { C(L-1, E - O(L,S), S') + R(L,S',S) } + c(L,S), C(0,*) = 0, the
// first layer moves nothing (PVLDB 16(3), section 3.3; papers.md 1.3). Of equal costs the
// lowest strategy wins, from the last layer to the first, as where an argmin is kept in
// every state.
//
// The answer is that of the plain programme, which takes O(L * E * S^2); this takes
// O(L * E * (S + K^2)) for K layouts: strategies that share a layout share R, so the
// least over S' is taken a layout at a time. States that no plan of the stage passes, or
// that say the same as their neighbour because memory does not bind there, are left out,
// and nothing but costs is kept: the way back is found by looking which predecessor gives
// the cost. Memory O(sqrt(L) * E * K) where all rows would be beyond `kMostRowBytes`.

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
  // Strategies between which activations move for nothing share a layout.
  int layout = 0;
  Seconds time;
  // Units of memory, not negative.
  int64_t units = 0;
};

// Layers that cost alike.
struct DenseKind {
  // At least one.
  std::vector<DenseOption> options;
  // [from * layout_count + to] into a layer of this kind. Finite, not negative.
  std::vector<Seconds> transitions;
};

struct DenseStage {
  int layout_count = 1;
  std::vector<DenseKind> kinds;
  // [layer], at least one.
  std::vector<int> kind_of_layer;
};

struct DenseSolution {
  // [layer] index into the options of its kind.
  std::vector<int> options;
  // Option times and transitions.
  Seconds time;
  int64_t units = 0;
};

// The table of one stage. Times are rounded to 2^-29 of the longest any assignment takes.
class DenseAssignment {
 public:
  // Rows of all layers are kept up to here.
  static constexpr int64_t kMostRowBytes = int64_t{1} << 28;

  // Answers capacities from `least_capacity` to `capacity` units. Keeps a reference to
  // `stage`. States are counted on `meter`; when it ends the search, `complete()` is
  // false and there is no answer.
  DenseAssignment(const DenseStage& stage, int64_t least_capacity, int64_t capacity,
                  SearchMeter& meter, int64_t most_row_bytes = kMostRowBytes);

  bool complete() const { return complete_; }

  // The best assignment of at most so many units; nothing where there is none. With the
  // units a solution has, up to the capacity it was asked for, the answer is the same.
  // REQUIRES: least_capacity <= capacity <= the constructor's, `complete()`.
  std::optional<DenseSolution> At(int64_t capacity);

 private:
  // Costs in ticks after a layer, by layout, for the numbers of units from `first` to
  // `last`; beyond `last` they are those at `last`, before `first` nothing fits.
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
    // Layouts that occur.
    std::vector<int> layouts;
    std::vector<int32_t> transitions;
    int64_t least_units = 0;
    int64_t most_units = 0;
  };

  const Kind& KindOf(int layer) const { return kinds_[stage_.kind_of_layer[layer]]; }
  void MakeTicks();
  void MakeBands(int64_t least_capacity, int64_t capacity);
  // Rows of the layers from `first` to `last`, from that before `first`.
  void Fill(int first, int last);
  void Advance(int layer);
  int32_t Tick(int layer, int64_t units, int layout) const;
  // The least cost of bringing what is before `layer` into `layout`.
  int32_t Arrival(int layer, int64_t units, int layout) const;
  // The lowest option of `layer` under any of `layouts` whose cost is that of the layout.
  int LowestOption(int layer, int64_t units, const std::vector<int>& layouts) const;
  void NeedRow(int layer);

  const DenseStage& stage_;
  SearchMeter& meter_;
  bool complete_ = true;
  std::vector<Kind> kinds_;
  // [layer + 1]; that of no layer first. Without ticks where they were dropped.
  std::vector<Row> rows_;
  // Rows whose index is a multiple are always kept; of the others, one block.
  int block_ = 1;
  int kept_block_ = -1;
  std::vector<int32_t> arrivals_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_DENSE_ASSIGNMENT_H_
