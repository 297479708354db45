// Masks over an option table (`PlanWideMasks` of option_table.h).

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

using MaskList = std::vector<OptionMask>;

OptionMask MaskOf(const OptionTable& table, int definition_count,
                  const std::function<bool(int, const Strategy&)>& allows) {
  OptionMask mask(definition_count);
  for (int definition = 0; definition < definition_count; ++definition) {
    for (const StageOption& option : table.options(definition)) {
      mask[definition].push_back(allows(definition, option.strategy) ? 1 : 0);
    }
  }
  return mask;
}

bool LeavesNoOption(const OptionMask& mask) {
  return std::any_of(mask.begin(), mask.end(), [](const std::vector<char>& bits) {
    return !bits.empty() && std::none_of(bits.begin(), bits.end(), [](char bit) { return bit; });
  });
}

// Whether `a` is nowhere worse than `b` where no layer of a plan moves activations, what
// it sends to another stage included.
bool Beats(const OptionTable& table, int definition, const StageOption& a, const StageOption& b) {
  const auto send = [&](const StageOption& option, bool leaves_node) {
    return table.Send(definition, option.layout, option.layout, leaves_node);
  };
  return a.NowhereWorse(b) && send(a, false) <= send(b, false) && send(a, true) <= send(b, true) &&
         table.Message(definition, a.layout) <= table.Message(definition, b.layout);
}

bool Beats(const OptionTable& table, const OptionMask& a, const OptionMask& b) {
  for (size_t definition = 0; definition < a.size(); ++definition) {
    const std::vector<StageOption>& options = table.options(static_cast<int>(definition));
    for (size_t i = 0; i < options.size(); ++i) {
      if (!b[definition][i]) continue;
      bool is_beaten = false;
      for (size_t j = 0; j < options.size() && !is_beaten; ++j) {
        is_beaten =
            a[definition][j] && Beats(table, static_cast<int>(definition), options[j], options[i]);
      }
      if (!is_beaten) return false;
    }
  }
  return true;
}

// Of masks whose plans have one layout each, those that are needed; of equals the first.
MaskList Unbeaten(const OptionTable& table, MaskList masks) {
  MaskList unbeaten;
  for (OptionMask& mask : masks) {
    if (std::any_of(unbeaten.begin(), unbeaten.end(),
                    [&](const OptionMask& other) { return Beats(table, other, mask); })) {
      continue;
    }
    std::erase_if(unbeaten, [&](const OptionMask& other) { return Beats(table, mask, other); });
    unbeaten.push_back(std::move(mask));
  }
  return unbeaten;
}

}  // namespace

std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table) {
  if (!table.usable()) return {};
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  const int definition_count = static_cast<int>(definitions.size());
  const bool per_layer = space.dimensions().has(SearchDimension::kPerLayer);
  MaskList masks;
  const auto is_chosen = [&](int definition) {
    return !per_layer && IsTransformer(definitions[definition].kind) &&
           !table.options(definition).empty();
  };
  // [definition] the strategy of its layers in the whole plan, where that is one.
  std::vector<const Strategy*> chosen(definition_count, nullptr);
  std::vector<int> bound;
  for (int definition = 0; definition < definition_count; ++definition) {
    if (is_chosen(definition)) bound.push_back(definition);
  }
  const auto goes_with_chosen = [&](int definition, const Strategy& strategy) {
    for (const int other : bound) {
      if (chosen[other] != nullptr &&
          !space.GoTogether(other, *chosen[other], definition, strategy)) {
        return false;
      }
    }
    return true;
  };
  // Chooses for the definitions from `next` on in all ways that go together.
  const std::function<void(int)> choose = [&](int next) {
    while (next < definition_count && !is_chosen(next)) ++next;
    if (next == definition_count) {
      OptionMask mask = MaskOf(table, definition_count, goes_with_chosen);
      if (!LeavesNoOption(mask)) masks.push_back(std::move(mask));
      return;
    }
    for (const StageOption& option : table.options(next)) {
      if (!goes_with_chosen(next, option.strategy)) continue;
      chosen[next] = &option.strategy;
      choose(next + 1);
      chosen[next] = nullptr;
    }
  };
  choose(0);
  // Then every layer has the degrees and the order of the others.
  const bool has_one_layout =
      !per_layer && !space.dimensions().has(SearchDimension::kEndStrategies);
  return has_one_layout ? Unbeaten(table, std::move(masks)) : masks;
}

OptionMask InOneLayout(const OptionTable& table, const OptionMask& mask, int layout) {
  OptionMask part = mask;
  for (size_t definition = 0; definition < part.size(); ++definition) {
    const std::vector<StageOption>& options = table.options(static_cast<int>(definition));
    std::vector<char> kept(part[definition].size(), 0);
    bool has_any = false;
    for (size_t k = 0; k < options.size(); ++k) {
      if (!mask[definition][k] || options[k].layout != layout) continue;
      kept[k] = 1;
      has_any = true;
    }
    if (has_any) part[definition] = std::move(kept);
  }
  return part;
}

}  // namespace parplan
