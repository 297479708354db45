#include "tests/support/brute_force.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace parplan {
namespace {

std::vector<int> KindOfLayer(const StageChoices& stage) {
  std::vector<int> kinds;
  for (const LayerChoiceRun& run : stage.runs) {
    kinds.insert(kinds.end(), run.layer_count, run.kind);
  }
  return kinds;
}

Seconds Transition(const StageChoices& stage, int kind, int from_layout, int to_layout) {
  return stage.kinds[kind].transitions[from_layout * stage.layout_count + to_layout];
}

void ForEachAssignment(const StageChoices& stage,
                       const std::function<void(const StageAssignment&)>& visit) {
  const std::vector<int> kinds = KindOfLayer(stage);
  std::vector<int> options(kinds.size(), 0);
  while (true) {
    StageAssignment assignment{.options = options, .time = {}, .peak = {}};
    Bytes transient;
    for (size_t layer = 0; layer < kinds.size(); ++layer) {
      const LayerOption& option = stage.kinds[kinds[layer]].options[options[layer]];
      assignment.time += option.time;
      assignment.peak += option.kept;
      transient = std::max(transient, option.transient);
      if (layer > 0) {
        const LayerOption& before = stage.kinds[kinds[layer - 1]].options[options[layer - 1]];
        assignment.time += Transition(stage, kinds[layer], before.layout, option.layout);
      }
    }
    assignment.peak += transient;
    visit(assignment);
    int layer = static_cast<int>(kinds.size()) - 1;
    while (layer >= 0 &&
           ++options[layer] == static_cast<int>(stage.kinds[kinds[layer]].options.size())) {
      options[layer--] = 0;
    }
    if (layer < 0) return;
  }
}

}  // namespace

std::optional<StageAssignment> BruteForceAssign(const StageChoices& stage, Bytes budget) {
  std::optional<StageAssignment> best;
  ForEachAssignment(stage, [&](const StageAssignment& assignment) {
    if (assignment.peak > budget) return;
    const double margin = best ? best->time.value() * 1e-12 : 0.0;
    if (!best || assignment.time.value() < best->time.value() - margin ||
        (assignment.time.value() <= best->time.value() + margin && assignment.peak < best->peak)) {
      best = assignment;
    }
  });
  return best;
}

Bytes BruteForceSmallestBudget(const StageChoices& stage) {
  Bytes smallest = Bytes::Max();
  ForEachAssignment(stage, [&smallest](const StageAssignment& assignment) {
    smallest = std::min(smallest, assignment.peak);
  });
  return smallest;
}

std::optional<Seconds> GridAssign(const StageChoices& stage, Bytes budget, Bytes granule) {
  const std::vector<int> kinds = KindOfLayer(stage);
  Bytes largest_transient;
  for (int kind : kinds) {
    for (const LayerOption& option : stage.kinds[kind].options) {
      largest_transient = std::max(largest_transient, option.transient);
    }
  }
  const int64_t capacity = (budget - largest_transient).count() / granule.count();
  if (budget < largest_transient) return std::nullopt;
  const auto units = [granule](Bytes kept) {
    return (kept.count() + granule.count() - 1) / granule.count();
  };
  // [units used][option of the last layer]
  using Row = std::vector<std::vector<Seconds>>;
  Row costs;
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    const std::vector<LayerOption>& options = stage.kinds[kinds[layer]].options;
    Row next(capacity + 1, std::vector<Seconds>(options.size(), Seconds::Infinite()));
    for (size_t to = 0; to < options.size(); ++to) {
      const int64_t size = units(options[to].kept);
      for (int64_t used = size; used <= capacity; ++used) {
        if (layer == 0) {
          next[used][to] = options[to].time;
          continue;
        }
        const std::vector<LayerOption>& before = stage.kinds[kinds[layer - 1]].options;
        for (size_t from = 0; from < before.size(); ++from) {
          next[used][to] = std::min(
              next[used][to],
              costs[used - size][from] + options[to].time +
                  Transition(stage, kinds[layer], before[from].layout, options[to].layout));
        }
      }
    }
    costs = std::move(next);
  }
  Seconds best = Seconds::Infinite();
  for (const std::vector<Seconds>& row : costs) {
    for (Seconds cost : row) best = std::min(best, cost);
  }
  if (!best.is_finite()) return std::nullopt;
  return best;
}

void ForEachPartition(int layer_count, int stage_count,
                      const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> partition;
  const std::function<void(int)> extend = [&](int left) {
    const int stages_left = stage_count - static_cast<int>(partition.size());
    if (stages_left == 1) {
      partition.push_back(left);
      visit(partition);
      partition.pop_back();
      return;
    }
    for (int count = 1; count <= left - (stages_left - 1); ++count) {
      partition.push_back(count);
      extend(left - count);
      partition.pop_back();
    }
  };
  extend(layer_count);
}

}  // namespace parplan
