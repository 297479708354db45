#include "planner/search/stage/dense_assignment.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "planner/search/stage/dense_kernels.h"

namespace parplan {
namespace {

// Cost of no assignment. The sum with the cost of any assignment stays within int32_t.
constexpr int32_t kNone = int32_t{1} << 30;
// Ticks of the longest assignment have this many bits, one less than `kNone`.
constexpr int kTickBits = 29;
// Units per block of states: 512 costs of 4 bytes for each layout and their arrivals stay in the
// first-level cache. Not measured for other sizes.
constexpr int64_t kBlockUnits = 512;

}  // namespace

DenseAssignment::DenseAssignment(const DenseStage& stage, int64_t least_capacity, int64_t capacity,
                                 SearchMeter& meter, int64_t max_row_bytes)
    : stage_(stage), meter_(meter) {
  PARPLAN_CHECK(!stage.kind_of_layer.empty() && least_capacity <= capacity);
  MakeTicks();
  MakeBands(least_capacity, capacity);
  int64_t bytes = 0;
  for (const Row& row : rows_) {
    bytes += row.width() * stage_.layout_count * static_cast<int64_t>(sizeof(int32_t));
  }
  const int layer_count = static_cast<int>(stage_.kind_of_layer.size());
  block_ = bytes <= max_row_bytes
               ? layer_count + 1
               : static_cast<int>(std::ceil(std::sqrt(static_cast<double>(layer_count + 1))));
  rows_.front().ticks.assign(stage_.layout_count, 0);
  if (rows_.back().width() <= 0) return;
  Fill(1, layer_count);
}

void DenseAssignment::MakeTicks() {
  double longest = 0.0;
  for (int kind : stage_.kind_of_layer) {
    Seconds option, transition;
    for (const DenseOption& each : stage_.kinds[kind].options) option = std::max(option, each.time);
    for (Seconds each : stage_.kinds[kind].transitions) transition = std::max(transition, each);
    longest += option.value() + transition.value();
  }
  PARPLAN_CHECK(std::isfinite(longest));
  // Each layer is rounded twice, by at most half a tick.
  const int exponent = kTickBits - 1 - (longest > 0.0 ? std::ilogb(longest) : 0);
  const auto to_ticks = [exponent](Seconds time) {
    return static_cast<int32_t>(std::lround(std::ldexp(time.value(), exponent)));
  };
  for (const DenseKind& raw : stage_.kinds) {
    Kind kind;
    kind.least_units = raw.options.empty() ? 0 : raw.options.front().units;
    for (const DenseOption& option : raw.options) {
      kind.options.push_back({to_ticks(option.time), option.layout, option.units});
      kind.layouts.push_back(option.layout);
      kind.least_units = std::min(kind.least_units, option.units);
      kind.max_units = std::max(kind.max_units, option.units);
    }
    std::sort(kind.layouts.begin(), kind.layouts.end());
    kind.layouts.erase(std::unique(kind.layouts.begin(), kind.layouts.end()), kind.layouts.end());
    for (Seconds transition : raw.transitions) kind.transitions.push_back(to_ticks(transition));
    kinds_.push_back(std::move(kind));
  }
}

// After a layer, plans hold at least the least units of the layers so far and leave room for the
// least units of the later layers. Rows end where more units change nothing, and begin where the
// later layers could not use up `least_capacity`, because no one asks for less.
void DenseAssignment::MakeBands(int64_t least_capacity, int64_t capacity) {
  const int layer_count = static_cast<int>(stage_.kind_of_layer.size());
  rows_.resize(layer_count + 1);
  int64_t least = 0, largest = 0, least_after = 0, max_after = 0;
  for (int layer = 0; layer < layer_count; ++layer) {
    least_after += KindOf(layer).least_units;
    max_after += KindOf(layer).max_units;
  }
  for (int layer = 0; layer < layer_count; ++layer) {
    const Kind& kind = KindOf(layer);
    least += kind.least_units;
    largest += kind.max_units;
    least_after -= kind.least_units;
    max_after -= kind.max_units;
    rows_[layer + 1].last = std::min(largest, capacity - least_after);
    rows_[layer + 1].first =
        std::min(std::max(least, least_capacity - max_after), rows_[layer + 1].last);
    if (capacity - least_after < least) {
      rows_.back() = {.first = 0, .last = -1};  // Nothing fits.
      return;
    }
  }
}

void DenseAssignment::Fill(int first, int last) {
  for (int row = first; row <= last; ++row) {
    if (!meter_.Expand(rows_[row].width())) {
      complete_ = false;
      return;
    }
    Advance(row - 1);
    // The previous row is no longer needed unless it is stored.
    const bool same_block = (row - 1) / block_ == last / block_;
    if (!same_block && (row - 1) % block_ != 0) std::vector<int32_t>().swap(rows_[row - 1].ticks);
  }
  kept_block_ = last / block_;
}

void DenseAssignment::Advance(int layer) {
  const Kind& kind = KindOf(layer);
  const Row& from = rows_[layer];
  Row& to = rows_[layer + 1];
  const int layout_count = stage_.layout_count;
  to.ticks.assign(to.width() * layout_count, kNone);
  arrivals_.resize(kBlockUnits);
  std::vector<const int32_t*> before(layout_count);
  std::vector<int32_t> add(layout_count);
  for (int64_t begin = from.first; begin <= from.last; begin += kBlockUnits) {
    const int64_t end = std::min(begin + kBlockUnits, from.last + 1);
    for (int layout : kind.layouts) {
      for (int other = 0; other < layout_count; ++other) {
        before[other] = from.ticks.data() + other * from.width() + (begin - from.first);
        add[other] = layer == 0 ? 0 : kind.transitions[other * layout_count + layout];
      }
      LeastSums(before, add, end - begin, arrivals_.data());
      int32_t* const target = to.ticks.data() + layout * to.width() - to.first;
      for (const Option& option : kind.options) {
        if (option.layout != layout) continue;
        const int64_t first = std::max(begin + option.units, to.first);
        const int64_t stop = std::min(end + option.units, to.last + 1);
        if (first < stop) {
          TakeLeast(arrivals_.data() + (first - option.units - begin), option.ticks, stop - first,
                    target + first);
        }
        // Beyond the end of the row all costs equal those at its end.
        if (end <= from.last) continue;
        const int32_t cost = arrivals_[end - 1 - begin] + option.ticks;
        for (int64_t units = std::max(end + option.units, to.first); units <= to.last; ++units) {
          target[units] = std::min(target[units], cost);
        }
      }
    }
  }
}

int32_t DenseAssignment::Tick(int layer, int64_t units, int layout) const {
  const Row& row = rows_[layer + 1];
  if (units < row.first) return kNone;
  const int64_t index = std::min(units, row.last) - row.first;
  return row.ticks[layout * row.width() + index];
}

int32_t DenseAssignment::Arrival(int layer, int64_t units, int layout) const {
  if (layer == 0) return units >= 0 ? 0 : kNone;
  int32_t least = kNone;
  for (int from = 0; from < stage_.layout_count; ++from) {
    const int32_t before = Tick(layer - 1, units, from);
    if (before >= kNone) continue;
    least =
        std::min(least, before + KindOf(layer).transitions[from * stage_.layout_count + layout]);
  }
  return least;
}

int DenseAssignment::LowestOption(int layer, int64_t units, const std::vector<int>& layouts) const {
  const std::vector<Option>& options = KindOf(layer).options;
  for (size_t index = 0; index < options.size(); ++index) {
    const Option& option = options[index];
    if (std::find(layouts.begin(), layouts.end(), option.layout) == layouts.end()) continue;
    const int32_t arrival = Arrival(layer, units - option.units, option.layout);
    if (arrival < kNone && arrival + option.ticks == Tick(layer, units, option.layout)) {
      return static_cast<int>(index);
    }
  }
  PARPLAN_CHECK(false);
  return -1;
}

// Computes the block of a row again if it was dropped. The next row, which is in the same block or
// the first of its own, stays.
void DenseAssignment::NeedRow(int layer) {
  const int row = layer + 1;
  if (!rows_[row].ticks.empty()) return;
  const int first = row / block_ * block_;
  const int last = std::min(first + block_ - 1, static_cast<int>(rows_.size()) - 1);
  for (int index = 1; index < static_cast<int>(rows_.size()); ++index) {
    if (index % block_ != 0 && index / block_ == kept_block_) {
      std::vector<int32_t>().swap(rows_[index].ticks);
    }
  }
  for (int index = first + 1; index <= last; ++index) Advance(index - 1);
  kept_block_ = row / block_;
}

std::optional<DenseSolution> DenseAssignment::At(int64_t capacity) {
  PARPLAN_CHECK(complete_);
  if (rows_.back().width() <= 0) return std::nullopt;
  const int layer_count = static_cast<int>(stage_.kind_of_layer.size());
  DenseSolution solution;
  solution.options.resize(layer_count);
  int64_t units = capacity;
  for (int layer = layer_count - 1; layer >= 0; --layer) {
    NeedRow(layer);
    // Layouts from which the least cost comes.
    std::vector<int> layouts;
    int32_t least = kNone;
    for (int layout = 0; layout < stage_.layout_count; ++layout) {
      int32_t ticks = Tick(layer, units, layout);
      if (ticks >= kNone) continue;
      if (layer + 1 < layer_count) {
        const DenseOption& next =
            stage_.kinds[stage_.kind_of_layer[layer + 1]].options[solution.options[layer + 1]];
        ticks += KindOf(layer + 1).transitions[layout * stage_.layout_count + next.layout];
      }
      if (ticks < least) layouts.clear();
      if (ticks <= least) layouts.push_back(layout);
      least = std::min(least, ticks);
    }
    if (layouts.empty()) return std::nullopt;
    if (layer > 0) NeedRow(layer - 1);
    solution.options[layer] = LowestOption(layer, units, layouts);
    units -= KindOf(layer).options[solution.options[layer]].units;
  }
  for (int layer = 0; layer < layer_count; ++layer) {
    const DenseKind& kind = stage_.kinds[stage_.kind_of_layer[layer]];
    const DenseOption& option = kind.options[solution.options[layer]];
    solution.time += option.time;
    solution.units += option.units;
    if (layer == 0) continue;
    const DenseOption& before =
        stage_.kinds[stage_.kind_of_layer[layer - 1]].options[solution.options[layer - 1]];
    solution.time += kind.transitions[before.layout * stage_.layout_count + option.layout];
  }
  return solution;
}

}  // namespace parplan
