#include "planner/search/stage/assignment_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// The best option of each layout of each kind at one price.
class PricedOptions {
 public:
  // If `least_memory`, only options without extra memory are used.
  PricedOptions(const CappedStage& stage, double ticks_per_byte, bool least_memory)
      : layout_count_(stage.layout_count),
        costs_(stage.kinds.size() * stage.layout_count, kInfinity),
        choices_(stage.kinds.size() * stage.layout_count, -1) {
    for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
      const std::vector<CappedOption>& options = stage.kinds[kind].options;
      for (size_t choice = 0; choice < options.size(); ++choice) {
        const CappedOption& option = options[choice];
        if (least_memory && option.extra_bytes > 0) continue;
        const double cost = static_cast<double>(option.ticks) +
                            ticks_per_byte * static_cast<double>(option.extra_bytes);
        const size_t slot = kind * layout_count_ + option.layout;
        if (cost < costs_[slot]) {
          costs_[slot] = cost;
          choices_[slot] = static_cast<int>(choice);
        }
      }
    }
  }

  double cost(int kind, int layout) const { return costs_[kind * layout_count_ + layout]; }
  int choice(int kind, int layout) const { return choices_[kind * layout_count_ + layout]; }

 private:
  int layout_count_;
  std::vector<double> costs_;
  std::vector<int> choices_;
};

// The cheapest path over (layer, layout) at one price.
struct PricedPath {
  CappedAssignment assignment;
  double cost = 0.0;
  // [layer * layout_count + layout before]; followed by a row of zeros.
  std::vector<double> values;
};

CappedAssignment Assignment(const CappedStage& stage, std::vector<int> choices) {
  CappedAssignment assignment;
  int layout_before = -1;
  for (int layer = 0; layer < stage.layer_count(); ++layer) {
    const CappedChoices& kind = stage.kinds[stage.kind_of_layer[layer]];
    const CappedOption& option = kind.options[choices[layer]];
    assignment.ticks += option.ticks;
    assignment.extra_bytes += option.extra_bytes;
    if (layer > 0) {
      assignment.ticks += kind.transitions[layout_before * stage.layout_count + option.layout];
    }
    layout_before = option.layout;
  }
  assignment.choices = std::move(choices);
  return assignment;
}

PricedPath CheapestPath(const CappedStage& stage, double ticks_per_byte, bool least_memory) {
  const int layer_count = stage.layer_count();
  const int layout_count = stage.layout_count;
  const PricedOptions options(stage, ticks_per_byte, least_memory);
  PricedPath path;
  path.values.assign((layer_count + size_t{1}) * layout_count, 0.0);
  std::vector<int> next_layout(static_cast<size_t>(layer_count) * layout_count, -1);
  for (int layer = layer_count - 1; layer >= 1; --layer) {
    const int kind = stage.kind_of_layer[layer];
    const CappedChoices& choices = stage.kinds[kind];
    const double* after = &path.values[(layer + size_t{1}) * layout_count];
    for (int before : stage.kinds[stage.kind_of_layer[layer - 1]].layouts) {
      double best = kInfinity;
      int best_layout = -1;
      for (int layout : choices.layouts) {
        const double cost =
            static_cast<double>(choices.transitions[before * layout_count + layout]) +
            options.cost(kind, layout) + after[layout];
        if (cost < best) {
          best = cost;
          best_layout = layout;
        }
      }
      path.values[layer * layout_count + before] = best;
      next_layout[layer * layout_count + before] = best_layout;
    }
  }
  path.cost = kInfinity;
  int layout = -1;
  const int first_kind = stage.kind_of_layer[0];
  for (int first : stage.kinds[first_kind].layouts) {
    const double cost = options.cost(first_kind, first) + path.values[layout_count + first];
    if (cost < path.cost) {
      path.cost = cost;
      layout = first;
    }
  }
  std::vector<int> choices;
  for (int layer = 0; layer < layer_count; ++layer) {
    if (layer > 0) layout = next_layout[layer * layout_count + layout];
    choices.push_back(options.choice(stage.kind_of_layer[layer], layout));
  }
  path.assignment = Assignment(stage, std::move(choices));
  return path;
}

bool Better(const CappedAssignment& a, const CappedAssignment& b) {
  return a.ticks < b.ticks || (a.ticks == b.ticks && a.extra_bytes < b.extra_bytes);
}

// Replaces `incumbent` by the best assignment within `room` that follows one path up to some layer
// and the other path from there on.
void ImproveBySplicing(const CappedStage& stage, const CappedAssignment& first,
                       const CappedAssignment& second, int64_t room, CappedAssignment& incumbent) {
  // Running sums: suffix of `second`, prefix of `first`.
  const int layer_count = stage.layer_count();
  const int layout_count = stage.layout_count;
  const auto option = [&stage](const CappedAssignment& path, int layer) -> const CappedOption& {
    return stage.kinds[stage.kind_of_layer[layer]].options[path.choices[layer]];
  };
  const auto transition = [&](const CappedOption& from, const CappedOption& to, int layer) {
    return stage.kinds[stage.kind_of_layer[layer]]
        .transitions[from.layout * layout_count + to.layout];
  };
  int64_t prefix_ticks = 0, prefix_bytes = 0;
  int64_t suffix_ticks = second.ticks, suffix_bytes = second.extra_bytes;
  int best_split = -1;
  int64_t best_ticks = incumbent.ticks, best_bytes = incumbent.extra_bytes;
  for (int split = 1; split < layer_count; ++split) {
    const CappedOption& last = option(first, split - 1);
    prefix_ticks += last.ticks;
    if (split > 1) prefix_ticks += transition(option(first, split - 2), last, split - 1);
    prefix_bytes += last.extra_bytes;
    const CappedOption& dropped = option(second, split - 1);
    const CappedOption& next = option(second, split);
    suffix_ticks -= dropped.ticks + transition(dropped, next, split);
    suffix_bytes -= dropped.extra_bytes;
    const int64_t ticks = prefix_ticks + suffix_ticks + transition(last, next, split);
    const int64_t bytes = prefix_bytes + suffix_bytes;
    if (bytes > room) continue;
    if (ticks < best_ticks || (ticks == best_ticks && bytes < best_bytes)) {
      best_ticks = ticks;
      best_bytes = bytes;
      best_split = split;
    }
  }
  if (best_split < 0) return;
  std::vector<int> choices(first.choices.begin(), first.choices.begin() + best_split);
  choices.insert(choices.end(), second.choices.begin() + best_split, second.choices.end());
  incumbent = Assignment(stage, std::move(choices));
  PARPLAN_CHECK(incumbent.ticks == best_ticks && incumbent.extra_bytes == best_bytes);
}

// Returns a bound of the rounding errors of a path's cost: each of its few additions per layer is
// off by at most 2^-53 of the largest partial sum.
double Slack(const CappedStage& stage, double ticks_per_byte) {
  int64_t longest = 0, largest = 0;
  for (int kind : stage.kind_of_layer) {
    int64_t ticks = 0, bytes = 0, transition = 0;
    for (const CappedOption& option : stage.kinds[kind].options) {
      ticks = std::max(ticks, option.ticks);
      bytes = std::max(bytes, option.extra_bytes);
    }
    for (int64_t moved : stage.kinds[kind].transitions) transition = std::max(transition, moved);
    longest += ticks + transition;
    largest += bytes;
  }
  const double magnitude =
      static_cast<double>(longest) + ticks_per_byte * static_cast<double>(largest);
  return 1.0 + magnitude * 8.0 * (stage.layer_count() + 1) * std::numeric_limits<double>::epsilon();
}

}  // namespace

Relaxation Relax(const CappedStage& stage, int64_t room) {
  PARPLAN_CHECK(room >= 0);
  // Each round leaves a smaller hull between the two paths, so few are needed; the limit guards
  // against rounding.
  constexpr int kMaxRounds = 64;
  Relaxation relaxation;
  const int layout_count = stage.layout_count;
  const double free_slack = Slack(stage, 0.0);
  PricedPath fastest = CheapestPath(stage, 0.0, /*least_memory=*/false);
  relaxation.free = SuffixBound(0.0, fastest.values, layout_count, free_slack);
  if (fastest.assignment.extra_bytes <= room) {
    relaxation.bound = fastest.cost - free_slack;
    relaxation.tight = relaxation.free;
    relaxation.incumbent = std::move(fastest.assignment);
    return relaxation;
  }
  CappedAssignment beyond = std::move(fastest.assignment);
  CappedAssignment within = CheapestPath(stage, 0.0, /*least_memory=*/true).assignment;
  relaxation.incumbent = within;
  relaxation.bound = fastest.cost - free_slack;
  relaxation.tight = relaxation.free;
  for (int round = 0; round < kMaxRounds && within.ticks > beyond.ticks; ++round) {
    const double price = static_cast<double>(within.ticks - beyond.ticks) /
                         static_cast<double>(beyond.extra_bytes - within.extra_bytes);
    PricedPath path = CheapestPath(stage, price, /*least_memory=*/false);
    const double slack = Slack(stage, price);
    const double bound = path.cost - price * static_cast<double>(room) - slack;
    if (bound > relaxation.bound) {
      relaxation.bound = bound;
      relaxation.tight = SuffixBound(price, std::move(path.values), layout_count, slack);
    }
    const double old_cost =
        static_cast<double>(within.ticks) + price * static_cast<double>(within.extra_bytes);
    if (path.cost >= old_cost - slack) break;
    if (path.assignment.extra_bytes <= room) {
      within = std::move(path.assignment);
      if (Better(within, relaxation.incumbent)) relaxation.incumbent = within;
    } else {
      beyond = std::move(path.assignment);
    }
  }
  ImproveBySplicing(stage, within, beyond, room, relaxation.incumbent);
  ImproveBySplicing(stage, beyond, within, room, relaxation.incumbent);
  return relaxation;
}

}  // namespace parplan
