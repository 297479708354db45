#include "planner/planners/exact/pipeline/layer_menus.h"

#include <algorithm>
#include <tuple>

#include "planner/search/base/search_numbers.h"
#include "planner/search/space/allowed_options.h"

namespace parplan {
namespace {

// Operations that an option counts as: it is compared with those of the menu. Menus of a thousand
// definitions take half a second, 0.3 us an option.
constexpr int64_t kWorkOfOption = 20;

bool NowhereWorse(const LayerItem& a, const LayerItem& b) {
  return a.forward_backward <= b.forward_backward && a.sync <= b.sync && a.states <= b.states &&
         a.kept <= b.kept;
}

}  // namespace

LayerItem ItemOf(const StageOption& option, int index) {
  return {.forward_backward = (option.forward + option.backward).value(),
          .sync = option.sync.value(),
          .states = option.states.as_double(),
          .kept = option.kept.as_double(),
          .option = index};
}

LayerMenus::LayerMenus(const PipelineSetting& setting, const OptionMask& mask, SearchMeter& meter,
                       int layout)
    : items_(setting.problem().model().layer_definitions().size()),
      least_transients_(items_.size(), kInfinity) {
  std::vector<LayerItem> all;
  for (const ModelLayerRun& run : setting.problem().model().layer_runs()) {
    const int definition = run.definition_index;
    std::vector<LayerItem>& items = items_[definition];
    if (!items.empty()) continue;
    const std::vector<StageOption>& options = setting.table().options(definition);
    if (!meter.Work(kWorkOfOption * static_cast<int64_t>(options.size()))) return;
    all.clear();
    for (const bool only : {true, false}) {
      const auto take = [&](int k) {
        if (only && layout >= 0 && options[k].layout != layout) return;
        all.push_back(ItemOf(options[k], k));
        least_transients_[definition] =
            std::min(least_transients_[definition], options[k].transient.as_double());
      };
      if (mask.empty()) {
        for (int k = 0; k < static_cast<int>(options.size()); ++k) take(k);
      } else {
        ForEachAllowed(mask[definition], take);
      }
      if (!all.empty()) break;
    }
    // An item comes after all that are nowhere worse, and after the first of equal ones.
    std::sort(all.begin(), all.end(), [](const LayerItem& a, const LayerItem& b) {
      return std::tie(a.forward_backward, a.sync, a.states, a.kept, a.option) <
             std::tie(b.forward_backward, b.sync, b.states, b.kept, b.option);
    });
    for (const LayerItem& item : all) {
      const bool is_dominated =
          std::any_of(items.begin(), items.end(),
                      [&](const LayerItem& other) { return NowhereWorse(other, item); });
      if (!is_dominated) items.push_back(item);
    }
  }
}

}  // namespace parplan
