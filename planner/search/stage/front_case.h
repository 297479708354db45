// A stage before it is searched: bounds of what its layers take and hold at least, and
// only those options that matter.
//
// For every cut a price of memory turns time and bytes of an option into one cost. What
// an option costs above the cheapest one (its reduced cost) is what an assignment loses by
// it, so options whose loss exceeds what the cut leaves are not there, and an assignment
// whose losses add up to more is not worth completing. Where all that is left fits, memory
// is forgotten, and with it options that only save some.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/front_stage.h"

namespace parplan {

// Sums over some layers, in ticks and bytes.
struct FrontSum {
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t sync = 0;
  int64_t bytes = 0;
  int64_t step_bytes = 0;
  int64_t step_bytes_with_bucket = 0;

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
  bool IsNowhereSlower(const FrontSum& other) const {
    return forward <= other.forward && backward <= other.backward && sync <= other.sync;
  }
};

// The stage in ticks.
struct TickStage {
  struct Option {
    // Index into the options of the definition.
    int option = 0;
    int layout = 0;
    FrontSum cost;
    int64_t transient = 0;
    int64_t budget = 0;
  };
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

  int layout_count = 1;
  // [kind]
  std::vector<std::vector<Option>> options;
  // [kind][from * layout_count + to] half a transition, or `kNever`.
  std::vector<std::vector<int64_t>> half_moves;
  std::vector<FrontRun> runs;
  // [layout], empty where nothing.
  std::vector<int64_t> output_bytes;
  bool has_step = false;
  int64_t gradient_bucket = 0;
  bool joins_passes = false;
  bool first_layout_matters = true;
  bool last_layout_matters = true;
  // [first layout * layout count + last layout] where only ways count, a way that is known, in
  // ticks; `kNever` where none is. Empty where other times count too. Of layouts that do not
  // matter the first.
  std::vector<int64_t> known_ways;
  // `most` in ticks and with what rounding can have moved; at least one.
  std::vector<LinearCut> cuts;

  // Index into `known_ways`.
  int EndsOf(int first_layout, int last_layout) const {
    return (first_layout_matters ? first_layout * layout_count : 0) +
           (last_layout_matters ? last_layout : 0);
  }
};

TickStage ToTicks(const FrontStage& stage, absl::Span<const LinearCut> cuts);

// A cut with its price.
struct PricedCut {
  LinearCut cut;
  double price = 0.0;

  double Cost(const FrontSum& sum) const {
    return cut.forward * static_cast<double>(sum.forward) +
           cut.backward * static_cast<double>(sum.backward) +
           cut.sync * static_cast<double>(sum.sync) + price * static_cast<double>(sum.bytes);
  }
};

// What layers that are still free can lose or win, for one cut.
struct Rates {
  // A byte less costs at least so much; infinite where none can be saved.
  double save = std::numeric_limits<double>::infinity();
  // A byte more that is put to use costs at least so much above its price; so does one
  // that stays unused. At most the price.
  double add = 0.0;

  void Include(double reduced, double bytes) {
    if (bytes < 0.0) save = std::min(save, reduced / -bytes);
    if (bytes > 0.0) add = std::min(add, reduced / bytes);
  }
};

// For one cut: the layers behind some run, at their cheapest.
struct Behind {
  // Their cost, less the price of all the room there is.
  double cost = 0.0;
  // Their bytes less the room.
  double bytes = 0.0;
  Rates rates;
};

struct FrontCase {
  const TickStage* stage = nullptr;
  // The largest transient and the least budget are no better than these. The room is what
  // they leave, and what the outputs of the best last layout leave.
  int64_t least_transient = 0;
  int64_t most_budget = 0;
  int64_t room = 0;
  bool has_output = false;
  bool has_step = false;
  // Whether everything fits, and memory is forgotten.
  bool memory_fits = false;
  // [kind] those left, the most promising first. Not empty.
  std::vector<std::vector<TickStage::Option>> options;
  std::vector<PricedCut> cuts;
  // [run * cut count + cut] the layers behind the run.
  std::vector<Behind> behind;
  // [(run * cut count + cut) * layout count + layout] `Behind::cost` where the run ends with
  // the layout, with what the layers behind then move at least.
  std::vector<double> cost_behind_layout;
  // [run] the least and the most bytes of the layers behind it.
  std::vector<int64_t> least_bytes_behind;
  std::vector<int64_t> most_bytes_behind;
  // Above `least_transient`, below `most_budget`, and of outputs, at the most.
  int64_t most_overhead = 0;

  const Behind* BehindRun(size_t run) const { return &behind[run * cuts.size()]; }
  // `layout`: -1 where it is not known.
  double CostBehind(size_t run, size_t cut, int layout) const {
    const size_t index = run * cuts.size() + cut;
    return layout < 0 ? behind[index].cost
                      : cost_behind_layout[index * stage->layout_count + layout];
  }
};

// Cases that together have all assignments that fit and satisfy the cuts. The largest
// transient of an assignment is about the same within a case, so that bounds of a case know
// it; an assignment may be in several.
std::vector<FrontCase> CasesOf(const TickStage& stage);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_CASE_H_
