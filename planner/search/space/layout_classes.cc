#include "planner/search/space/layout_classes.h"

#include <algorithm>
#include <numeric>

namespace parplan {
namespace {

// Number of definitions whose moves are compared. Relaxations with classes that are not the best
// ones are still valid, only weaker, so models of very many definitions need not compare them all.
// Not measured for other values.
constexpr int kMaxAsked = 16;

}  // namespace

void LayoutClasses::Compare() {
  const int count = table_.layout_count();
  resharding_.assign(static_cast<size_t>(count) * count, Seconds());
  std::vector<int> asked;
  for (const ModelLayerRun& run : model_.layer_runs()) {
    const int definition = run.definition_index;
    if (std::find(asked.begin(), asked.end(), definition) != asked.end()) continue;
    asked.push_back(definition);
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        Seconds& largest = resharding_[a * count + b];
        largest = std::max(
            {largest, table_.Transition(definition, a, b), table_.Transition(definition, b, a)});
      }
    }
    if (static_cast<int>(asked.size()) == kMaxAsked) break;
  }
  definition_ = asked.front();
}

// Returns whether the same layers may precede and follow both layouts; the answer is the same for
// all definitions.
bool LayoutClasses::FollowAlike(int a, int b) const {
  const auto may_follow = [this](int from, int to) {
    return table_.Transition(definition_, from, to).is_finite();
  };
  for (int other = 0; other < table_.layout_count(); ++other) {
    if (may_follow(a, other) != may_follow(b, other)) return false;
    if (may_follow(other, a) != may_follow(other, b)) return false;
  }
  return true;
}

std::vector<int> LayoutClasses::Within(Seconds limit) {
  if (definition_ < 0) Compare();
  const int count = table_.layout_count();
  std::vector<int> classes(count);
  std::iota(classes.begin(), classes.end(), 0);
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < a; ++b) {
      if (classes[a] == classes[b] || resharding_[a * count + b] > limit || !FollowAlike(a, b))
        continue;
      std::replace(classes.begin(), classes.end(), int{classes[a]}, int{classes[b]});
    }
  }
  return classes;
}

}  // namespace parplan
