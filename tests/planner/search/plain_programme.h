// The dense dynamic programme in its plain form (docs/papers.md 1.3), for tests that compare.

#ifndef PARPLAN_TESTS_PLANNER_SEARCH_PLAIN_PROGRAMME_H_
#define PARPLAN_TESTS_PLANNER_SEARCH_PLAIN_PROGRAMME_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/search/stage/dense_assignment.h"

namespace parplan {

// Every state, every predecessor, marks to go back. "At most" so many
// units; ties go to the lowest strategy.
class PlainProgramme {
 public:
  PlainProgramme(const DenseStage& stage, int64_t capacity) : stage_(stage) {
    if (capacity < 0) return;
    marks_.resize(stage.kind_of_layer.size());
    for (size_t layer = 0; layer < marks_.size(); ++layer) Advance(layer, capacity);
  }

  // The options of an answer; nothing where none fits.
  std::optional<std::vector<int>> At(int64_t capacity) const {
    if (capacity < 0) return std::nullopt;
    const std::vector<double>& last = costs_[capacity];
    const auto least = std::min_element(last.begin(), last.end());
    if (*least == kNone) return std::nullopt;
    std::vector<int> options(marks_.size());
    int option = static_cast<int>(least - last.begin());
    int64_t units = capacity;
    for (size_t layer = options.size(); layer-- > 0;) {
      options[layer] = option;
      const int before = marks_[layer][units][option];
      units -= KindOf(layer).options[option].units;
      option = before;
    }
    return options;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  const DenseKind& KindOf(size_t layer) const { return stage_.kinds[stage_.kind_of_layer[layer]]; }

  void Advance(size_t layer, int64_t capacity) {
    const DenseKind& kind = KindOf(layer);
    std::vector<std::vector<double>> next(capacity + 1);
    marks_[layer].resize(capacity + 1);
    for (int64_t units = 0; units <= capacity; ++units) {
      next[units].assign(kind.options.size(), kNone);
      marks_[layer][units].assign(kind.options.size(), -1);
      for (size_t index = 0; index < kind.options.size(); ++index) {
        if (kind.options[index].units > units) continue;
        Relax(layer, units, index, next[units][index], marks_[layer][units][index]);
      }
    }
    costs_ = std::move(next);
  }

  void Relax(size_t layer, int64_t units, size_t index, double& cost, int& mark) const {
    const DenseKind& kind = KindOf(layer);
    const DenseOption& option = kind.options[index];
    if (layer == 0) {
      cost = option.time.value();
      return;
    }
    const std::vector<DenseOption>& before = KindOf(layer - 1).options;
    for (size_t other = 0; other < before.size(); ++other) {
      const int slot = before[other].layout * stage_.layout_count + option.layout;
      const double sum = costs_[units - option.units][other] + kind.transitions[slot].value() +
                         option.time.value();
      if (sum >= cost) continue;
      cost = sum;
      mark = static_cast<int>(other);
    }
  }

  const DenseStage& stage_;
  // [units][option] after the last layer.
  std::vector<std::vector<double>> costs_;
  // [layer][units][option] the option before.
  std::vector<std::vector<std::vector<int>>> marks_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_SEARCH_PLAIN_PROGRAMME_H_
