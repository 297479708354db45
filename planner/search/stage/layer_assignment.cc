#include "planner/search/stage/layer_assignment.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/assignment_bound.h"
#include "planner/search/stage/capped_stage.h"

namespace parplan {
namespace {

// A Pareto-optimal way to run the first layers: no other with the same last layout is at most as
// slow and keeps at most as much.
struct Label {
  int64_t extra_bytes = 0;
  int64_t ticks = 0;
  // Index among the labels of the previous layer; -1 at the first layer.
  int32_t parent = -1;
  // Index into `CappedChoices::options`.
  int32_t choice = 0;
  // Position among all labels of the layer in the order of their option lists.
  int32_t rank = 0;
  int32_t parent_rank = 0;
};

bool ListedBefore(const Label& a, const Label& b) {
  return std::tie(a.parent_rank, a.choice) < std::tie(b.parent_rank, b.choice);
}

bool StaircaseOrder(const Label& a, const Label& b) {
  return std::tie(a.extra_bytes, a.ticks, a.parent_rank, a.choice) <
         std::tie(b.extra_bytes, b.ticks, b.parent_rank, b.choice);
}

// The labels after one layer; those of a layout are adjacent, ascending by memory and descending by
// time.
struct LabelLayer {
  std::vector<Label> labels;
  // [layout] half-open ranges of `labels`.
  std::vector<std::pair<int32_t, int32_t>> range_of_layout;
};

// Appends the Pareto-optimal ones of `candidates`, which it reorders.
void AppendStaircase(std::vector<Label>& candidates, std::vector<Label>& labels) {
  std::sort(candidates.begin(), candidates.end(), StaircaseOrder);
  int64_t least_ticks = std::numeric_limits<int64_t>::max();
  for (const Label& candidate : candidates) {
    if (candidate.ticks >= least_ticks) continue;
    least_ticks = candidate.ticks;
    labels.push_back(candidate);
  }
}

void RankLabels(std::vector<Label>& labels) {
  std::vector<int32_t> order(labels.size());
  for (size_t index = 0; index < order.size(); ++index) order[index] = static_cast<int32_t>(index);
  std::sort(order.begin(), order.end(),
            [&labels](int32_t a, int32_t b) { return ListedBefore(labels[a], labels[b]); });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    labels[order[rank]].rank = static_cast<int32_t>(rank);
  }
}

// The dynamic programme under one cap.
class LabelSearch {
 public:
  LabelSearch(const CappedStage& stage, int64_t room, const Relaxation& relaxation,
              int64_t max_ticks, SearchMeter& meter)
      : stage_(stage),
        room_(room),
        relaxation_(relaxation),
        max_ticks_(static_cast<double>(max_ticks)),
        meter_(meter) {}

  // Returns the fastest assignment of at most `max_ticks`; among equally fast ones the one that
  // keeps less, then the one listed first. Returns nothing if there is none or the meter ended the
  // search.
  std::optional<CappedAssignment> Run() {
    for (int layer = 0; layer < stage_.layer_count(); ++layer) {
      if (!AddLayer(layer)) return std::nullopt;
    }
    const std::vector<Label>& last = layers_.back().labels;
    const Label* best = nullptr;
    for (const Label& label : last) {
      if (best == nullptr || std::tie(label.ticks, label.extra_bytes, label.rank) <
                                 std::tie(best->ticks, best->extra_bytes, best->rank)) {
        best = &label;
      }
    }
    if (best == nullptr) return std::nullopt;
    return Path(*best);
  }

 private:
  // Extends every label by every option of `layer`. Returns false if the meter ended the search.
  bool AddLayer(int layer) {
    const CappedChoices& kind = stage_.kinds[stage_.kind_of_layer[layer]];
    LabelLayer next;
    next.range_of_layout.resize(stage_.layout_count, {0, 0});
    for (int layout : kind.layouts) {
      candidates_.clear();
      for (int32_t choice = 0; choice < static_cast<int32_t>(kind.options.size()); ++choice) {
        if (kind.options[choice].layout != layout) continue;
        if (layer == 0) {
          AddCandidate(layer, Label{}, -1, kind.options[choice], choice, 0);
        } else if (!ExtendAll(layer, kind, choice)) {
          return false;
        }
      }
      const auto first = static_cast<int32_t>(next.labels.size());
      AppendStaircase(candidates_, next.labels);
      next.range_of_layout[layout] = {first, static_cast<int32_t>(next.labels.size())};
    }
    RankLabels(next.labels);
    layers_.push_back(std::move(next));
    return true;
  }

  bool ExtendAll(int layer, const CappedChoices& kind, int32_t choice) {
    const LabelLayer& previous = layers_.back();
    const CappedOption& option = kind.options[choice];
    for (int before = 0; before < stage_.layout_count; ++before) {
      const auto [first, end] = previous.range_of_layout[before];
      if (first == end) continue;
      if (!meter_.Expand(end - first)) return false;
      const int64_t moved = kind.transitions[before * stage_.layout_count + option.layout];
      for (int32_t index = first; index < end; ++index) {
        const Label& label = previous.labels[index];
        // Labels are ascending by memory, so none of the rest fits either.
        if (label.extra_bytes + option.extra_bytes > room_) break;
        AddCandidate(layer, label, index, option, choice, moved);
      }
    }
    return true;
  }

  void AddCandidate(int layer, const Label& label, int32_t parent, const CappedOption& option,
                    int32_t choice, int64_t moved) {
    Label candidate{.extra_bytes = label.extra_bytes + option.extra_bytes,
                    .ticks = label.ticks + option.ticks + moved,
                    .parent = parent,
                    .choice = choice,
                    .parent_rank = label.rank};
    if (candidate.extra_bytes > room_ || ExceedsLimit(layer + 1, option.layout, candidate)) {
      meter_.Prune(1);
      return;
    }
    candidates_.push_back(candidate);
  }

  // Returns whether no completion from `layer` on takes at most `max_ticks_`.
  bool ExceedsLimit(int layer, int layout, const Label& label) const {
    const auto ticks = static_cast<double>(label.ticks);
    const SuffixBound& free = relaxation_.free;
    if (ticks + free.value(layer, layout) - free.slack() > max_ticks_) return true;
    const SuffixBound& tight = relaxation_.tight;
    const auto room_left = static_cast<double>(room_ - label.extra_bytes);
    return ticks + tight.value(layer, layout) - tight.ticks_per_byte() * room_left - tight.slack() >
           max_ticks_;
  }

  CappedAssignment Path(const Label& last) const {
    CappedAssignment assignment;
    assignment.ticks = last.ticks;
    assignment.extra_bytes = last.extra_bytes;
    assignment.choices.resize(stage_.layer_count());
    const Label* label = &last;
    for (int layer = stage_.layer_count() - 1; layer >= 0; --layer) {
      assignment.choices[layer] = label->choice;
      if (layer > 0) label = &layers_[layer - 1].labels[label->parent];
    }
    return assignment;
  }

  const CappedStage& stage_;
  const int64_t room_;
  const Relaxation& relaxation_;
  const double max_ticks_;
  SearchMeter& meter_;
  std::vector<LabelLayer> layers_;
  std::vector<Label> candidates_;
};

// A cap and its relaxation.
struct CapCase {
  CappedStage stage;
  int64_t room = 0;
  Relaxation relaxation;
};

// An assignment in terms of the whole stage.
struct FoundAssignment {
  int64_t ticks = 0;
  Bytes peak;
  std::vector<int> options;
};

FoundAssignment InWholeStage(const StageChoices& stage, const CappedStage& capped,
                             const CappedAssignment& assignment) {
  FoundAssignment found;
  found.ticks = assignment.ticks;
  Bytes transient;
  for (int layer = 0; layer < capped.layer_count(); ++layer) {
    const int kind = capped.kind_of_layer[layer];
    const int option = capped.kinds[kind].options[assignment.choices[layer]].option;
    found.options.push_back(option);
    transient = std::max(transient, stage.kinds[kind].options[option].transient);
  }
  found.peak = capped.least_kept + Bytes::Of(assignment.extra_bytes) + transient;
  return found;
}

void KeepBetter(FoundAssignment found, std::optional<FoundAssignment>& best) {
  if (!best || std::tie(found.ticks, found.peak, found.options) <
                   std::tie(best->ticks, best->peak, best->options)) {
    best = std::move(found);
  }
}

}  // namespace

Bytes SmallestBudget(const StageChoices& stage) {
  Bytes smallest = Bytes::Max();
  for (Bytes cap : TransientCaps(stage)) {
    Bytes needed = cap;
    for (const LayerChoiceRun& run : stage.runs) {
      Bytes least = Bytes::Max();
      for (const LayerOption& option : stage.kinds[run.kind].options) {
        if (option.transient <= cap) least = std::min(least, option.kept);
      }
      needed += least * run.layer_count;
    }
    smallest = std::min(smallest, needed);
  }
  return smallest;
}

std::variant<StageAssignment, BudgetTooSmall> AssignStrategies(const StageChoices& stage,
                                                               Bytes budget, SearchMeter& meter) {
  PARPLAN_CHECK(!stage.runs.empty());
  const TickScale scale(LongestTime(stage));
  std::vector<CapCase> cases;
  Bytes smallest_budget = Bytes::Max();
  std::optional<FoundAssignment> best;
  for (Bytes cap : TransientCaps(stage)) {
    std::optional<CappedStage> capped = CapStage(stage, cap, scale);
    PARPLAN_CHECK(capped.has_value());
    smallest_budget = std::min(smallest_budget, capped->least_kept + cap);
    const int64_t room = capped->ExtraRoom(budget);
    if (room < 0) continue;
    Relaxation relaxation = Relax(*capped, room);
    KeepBetter(InWholeStage(stage, *capped, relaxation.incumbent), best);
    cases.push_back({*std::move(capped), room, std::move(relaxation)});
  }
  if (!best) return BudgetTooSmall{smallest_budget};

  // The cap with the least bound comes first, so that its answer excludes others.
  std::stable_sort(cases.begin(), cases.end(), [](const CapCase& a, const CapCase& b) {
    return a.relaxation.bound < b.relaxation.bound;
  });
  for (const CapCase& cap_case : cases) {
    if (meter.stopped()) break;
    if (cap_case.relaxation.bound > static_cast<double>(best->ticks)) {
      meter.Prune(1);
      continue;
    }
    LabelSearch search(cap_case.stage, cap_case.room, cap_case.relaxation, best->ticks, meter);
    const std::optional<CappedAssignment> assignment = search.Run();
    if (assignment) KeepBetter(InWholeStage(stage, cap_case.stage, *assignment), best);
  }
  return StageAssignment{.options = std::move(best->options),
                         .time = scale.ToSeconds(best->ticks),
                         .peak = best->peak,
                         .is_exact = !meter.stopped()};
}

}  // namespace parplan
