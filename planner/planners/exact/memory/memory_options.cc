#include "planner/planners/exact/memory/memory_options.h"

#include <algorithm>

namespace parplan {
namespace {

bool NeedsNoMore(const StageOption& a, const StageOption& b) {
  return a.states <= b.states && a.kept <= b.kept && a.transient <= b.transient &&
         a.communicator_count <= b.communicator_count;
}

}  // namespace

std::vector<std::vector<int>> LeanOptions(const ModelSpec& model, const OptionTable& table,
                                          const OptionMask& mask) {
  std::vector<std::vector<int>> lean(model.layer_definitions().size());
  for (const ModelLayerRun& run : model.layer_runs()) {
    std::vector<int>& kept = lean[run.definition_index];
    if (!kept.empty()) continue;
    const std::vector<StageOption>& options = table.options(run.definition_index);
    for (int index = 0; index < static_cast<int>(options.size()); ++index) {
      if (!mask[run.definition_index][index]) continue;
      const auto covers = [&](int other) { return NeedsNoMore(options[other], options[index]); };
      if (std::any_of(kept.begin(), kept.end(), covers)) continue;
      kept.erase(
          std::remove_if(kept.begin(), kept.end(),
                         [&](int other) { return NeedsNoMore(options[index], options[other]); }),
          kept.end());
      kept.push_back(index);
    }
  }
  return lean;
}

}  // namespace parplan
