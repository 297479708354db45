#include "planner/search/stage/capped_stage.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace parplan {
namespace {

// Returns whether `a` makes `b` superfluous; among equal options the first stays.
bool Dominates(const CappedOption& a, const CappedOption& b) {
  if (a.layout != b.layout || a.ticks > b.ticks || a.extra_bytes > b.extra_bytes) return false;
  return a.ticks < b.ticks || a.extra_bytes < b.extra_bytes || a.option < b.option;
}

std::vector<CappedOption> WithoutDominated(const std::vector<CappedOption>& options) {
  std::vector<CappedOption> kept;
  for (const CappedOption& option : options) {
    const bool dominated =
        std::any_of(options.begin(), options.end(),
                    [&option](const CappedOption& other) { return Dominates(other, option); });
    if (!dominated) kept.push_back(option);
  }
  return kept;
}

// Returns the options of `choices` under `cap`; sets `least_kept` to the least memory of the layer.
CappedChoices CapChoices(const LayerChoices& choices, Bytes cap, const TickScale& scale,
                         Bytes& least_kept) {
  CappedChoices capped;
  least_kept = Bytes::Max();
  for (const LayerOption& option : choices.options) {
    if (option.transient <= cap) least_kept = std::min(least_kept, option.kept);
  }
  for (int index = 0; index < static_cast<int>(choices.options.size()); ++index) {
    const LayerOption& option = choices.options[index];
    if (option.transient > cap) continue;
    capped.options.push_back({.option = index,
                              .layout = option.layout,
                              .ticks = scale.ToTicks(option.time),
                              .extra_bytes = (option.kept - least_kept).count()});
  }
  capped.options = WithoutDominated(capped.options);
  for (const CappedOption& option : capped.options) capped.layouts.push_back(option.layout);
  std::sort(capped.layouts.begin(), capped.layouts.end());
  capped.layouts.erase(std::unique(capped.layouts.begin(), capped.layouts.end()),
                       capped.layouts.end());
  for (Seconds transition : choices.transitions) {
    capped.transitions.push_back(scale.ToTicks(transition));
  }
  return capped;
}

}  // namespace

Seconds LongestTime(const StageChoices& stage) {
  Seconds longest;
  for (const LayerChoiceRun& run : stage.runs) {
    const LayerChoices& choices = stage.kinds[run.kind];
    Seconds longest_option;
    for (const LayerOption& option : choices.options) {
      longest_option = std::max(longest_option, option.time);
    }
    Seconds longest_transition;
    for (Seconds transition : choices.transitions) {
      longest_transition = std::max(longest_transition, transition);
    }
    longest += (longest_option + longest_transition) * run.layer_count;
  }
  return longest;
}

std::vector<Bytes> TransientCaps(const StageChoices& stage) {
  std::vector<char> used(stage.kinds.size(), 0);
  for (const LayerChoiceRun& run : stage.runs) used[run.kind] = 1;
  std::vector<Bytes> caps;
  // Below this cap some layer has no option.
  Bytes least_cap;
  for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
    if (!used[kind]) continue;
    PARPLAN_CHECK(!stage.kinds[kind].options.empty());
    Bytes least = Bytes::Max();
    for (const LayerOption& option : stage.kinds[kind].options) {
      caps.push_back(option.transient);
      least = std::min(least, option.transient);
    }
    least_cap = std::max(least_cap, least);
  }
  std::sort(caps.begin(), caps.end());
  caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
  caps.erase(caps.begin(), std::lower_bound(caps.begin(), caps.end(), least_cap));
  return caps;
}

std::optional<CappedStage> CapStage(const StageChoices& stage, Bytes cap, const TickScale& scale) {
  CappedStage capped;
  capped.layout_count = stage.layout_count;
  capped.cap = cap;
  std::vector<Bytes> least_kept_of_kind;
  for (const LayerChoices& choices : stage.kinds) {
    Bytes least_kept;
    capped.kinds.push_back(CapChoices(choices, cap, scale, least_kept));
    least_kept_of_kind.push_back(least_kept);
  }
  for (const LayerChoiceRun& run : stage.runs) {
    if (capped.kinds[run.kind].options.empty()) return std::nullopt;
    capped.kind_of_layer.insert(capped.kind_of_layer.end(), run.layer_count, run.kind);
    capped.least_kept += least_kept_of_kind[run.kind] * run.layer_count;
  }
  return capped;
}

}  // namespace parplan
