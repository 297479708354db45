#include "planner/planners/exact/pipeline/partition_seams.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

namespace parplan {
namespace {

// The costs of an option given the neighbours that are decided.
struct Effect {
  int layout = 0;
  Seconds forward;
  Seconds backward;
  // Resharding at each seam with a decided neighbour.
  absl::InlinedVector<Seconds, 4> resharding;
};

bool NeedsNoMore(const StageOption& a, const Effect& effect_of_a, const StageOption& b,
                 const Effect& effect_of_b) {
  if (effect_of_a.forward > effect_of_b.forward || effect_of_a.backward > effect_of_b.backward ||
      a.sync > b.sync || !a.NeedsNoMoreMemory(b)) {
    return false;
  }
  for (size_t i = 0; i < effect_of_a.resharding.size(); ++i) {
    if (effect_of_a.resharding[i] > effect_of_b.resharding[i]) return false;
  }
  return true;
}

}  // namespace

PartitionSeams::PartitionSeams(const PipelineSetting& setting, const std::vector<int>& layer_counts)
    : setting_(setting) {
  const auto add = [this](const Seam& seam) {
    if (std::find(seams_.begin(), seams_.end(), seam) == seams_.end()) seams_.push_back(seam);
  };
  int layer = 0;
  for (size_t stage = 0; stage < layer_counts.size(); ++stage) {
    const int end = layer + layer_counts[stage];
    while (layer < end) {
      const int definition = setting.definition_of(layer);
      const int next = std::min(setting.EndOfRun(layer), end);
      layer = next;
      if (layer == setting.layer_count()) break;
      const bool ends_stage = layer == end;
      const int after = setting.definition_of(layer);
      if (!ends_stage && after == definition) continue;
      const int device = static_cast<int>(stage) % setting.depth();
      add({definition, after, ends_stage, ends_stage && setting.stage(device).leaves_node});
    }
  }
}

std::vector<int> PartitionSeams::Undominated(int definition, const std::vector<int>& allowed,
                                             const std::vector<int>& chosen) const {
  const OptionTable& table = setting_.table();
  const std::vector<StageOption>& options = table.options(definition);
  // An option affects resharding between layers of its definition only through its layout.
  bool compares_layouts = !setting_.costs().runtime().keep_stage_outputs;
  for (const Seam& seam : seams_) {
    if (seam.before != definition && seam.after != definition) continue;
    const int other = seam.before == definition ? seam.after : seam.before;
    if (other != definition && chosen[other] < 0) compares_layouts = false;
  }
  std::vector<Effect> effects;
  std::vector<int> kept;
  for (int index : allowed) {
    const StageOption& option = options[index];
    Effect effect{option.layout, option.forward, option.backward, {}};
    bool excluded = false;
    for (const Seam& seam : seams_) {
      if (seam.before != definition && seam.after != definition) continue;
      const auto layout_of = [&](int at) {
        if (at == definition) return option.layout;
        return chosen[at] < 0 ? -1 : table.options(at)[chosen[at]].layout;
      };
      const int from = layout_of(seam.before);
      const int to = layout_of(seam.after);
      if (from < 0 || to < 0) continue;
      const Seconds move = seam.ends_stage ? table.Send(seam.before, from, to, seam.leaves_node)
                                           : table.Transition(seam.after, from, to);
      excluded |= !move.is_finite();
      effect.resharding.push_back(move);
    }
    if (excluded) continue;
    const auto covers = [&](size_t i) {
      return (compares_layouts || effects[i].layout == effect.layout) &&
             NeedsNoMore(options[kept[i]], effects[i], option, effect);
    };
    bool dominated = false;
    for (size_t i = 0; i < kept.size() && !dominated; ++i) dominated = covers(i);
    if (dominated) continue;
    kept.push_back(index);
    effects.push_back(std::move(effect));
  }
  return kept;
}

}  // namespace parplan
