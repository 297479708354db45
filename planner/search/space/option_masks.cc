// Masks over an option table (`PlanWideMasks` of option_table.h).

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "planner/model/tied_table.h"
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

// Returns whether `a` is at least as good as `b` in plans that reshard nowhere, including the
// messages to other stages.
bool Dominates(const OptionTable& table, int definition, const StageOption& a,
               const StageOption& b) {
  const auto send = [&](const StageOption& option, bool leaves_node) {
    return table.Send(definition, option.layout, option.layout, leaves_node);
  };
  return a.NowhereWorse(b) && send(a, false) <= send(b, false) && send(a, true) <= send(b, true) &&
         table.Message(definition, a.layout) <= table.Message(definition, b.layout);
}

bool Dominates(const OptionTable& table, const OptionMask& a, const OptionMask& b) {
  for (size_t definition = 0; definition < a.size(); ++definition) {
    const std::vector<StageOption>& options = table.options(static_cast<int>(definition));
    for (size_t i = 0; i < options.size(); ++i) {
      if (!b[definition][i]) continue;
      bool is_dominated = false;
      for (size_t j = 0; j < options.size() && !is_dominated; ++j) {
        is_dominated = a[definition][j] &&
                       Dominates(table, static_cast<int>(definition), options[j], options[i]);
      }
      if (!is_dominated) return false;
    }
  }
  return true;
}

// Returns the masks that no other dominates, if the plans of each mask have a single layout; among
// equal ones the first.
MaskList Undominated(const OptionTable& table, MaskList masks) {
  MaskList undominated;
  for (OptionMask& mask : masks) {
    if (std::any_of(undominated.begin(), undominated.end(),
                    [&](const OptionMask& other) { return Dominates(table, other, mask); })) {
      continue;
    }
    std::erase_if(undominated,
                  [&](const OptionMask& other) { return Dominates(table, mask, other); });
    undominated.push_back(std::move(mask));
  }
  return undominated;
}

// Returns the definitions that hold a tied table; none if only one layer holds it.
std::vector<int> TableHolders(const StrategySpace& space, const OptionTable& table) {
  std::vector<int> holders;
  int layer_count = 0;
  for (const ModelLayerRun& run : space.problem().model().layer_runs()) {
    const int definition = run.definition_index;
    if (!space.HoldsTiedTable(definition) || table.options(definition).empty()) continue;
    layer_count += run.layer_count;
    if (std::find(holders.begin(), holders.end(), definition) == holders.end()) {
      holders.push_back(definition);
    }
  }
  if (layer_count < 2) holders.clear();
  return holders;
}

// Returns one mask for each sharding of the table that all holders have options for.
MaskList SplitByTable(const OptionTable& table, const OptionMask& mask,
                      const std::vector<int>& holders) {
  MaskList split;
  std::vector<const Strategy*> shardings;
  const int leader = holders.front();
  for (size_t k = 0; k < mask[leader].size(); ++k) {
    const Strategy& table_sharding = table.options(leader)[k].strategy;
    if (!mask[leader][k] ||
        std::any_of(shardings.begin(), shardings.end(), [&](const Strategy* other) {
          return HoldTableAlike(*other, table_sharding);
        })) {
      continue;
    }
    shardings.push_back(&table_sharding);
    OptionMask part = mask;
    for (const int holder : holders) {
      const std::vector<StageOption>& options = table.options(holder);
      for (size_t i = 0; i < options.size(); ++i) {
        part[holder][i] =
            part[holder][i] && HoldTableAlike(options[i].strategy, table_sharding) ? 1 : 0;
      }
    }
    if (!LeavesNoOption(part)) split.push_back(std::move(part));
  }
  return split;
}

// Returns the masks that no other dominates, if masks differ only in the options of holders and
// holders may have any neighbours; among equal ones the first.
MaskList WithoutWorseTables(const OptionTable& table, MaskList masks,
                            const std::vector<int>& holders) {
  // Every option a holder has under `b` has a counterpart of the same layout under `a` that costs
  // no more.
  const auto dominates = [&](const OptionMask& a, const OptionMask& b) {
    for (const int holder : holders) {
      const std::vector<StageOption>& options = table.options(holder);
      for (size_t i = 0; i < options.size(); ++i) {
        if (!b[holder][i]) continue;
        bool is_dominated = false;
        for (size_t j = 0; j < options.size() && !is_dominated; ++j) {
          is_dominated = a[holder][j] && options[j].layout == options[i].layout &&
                         options[j].NowhereWorse(options[i]);
        }
        if (!is_dominated) return false;
      }
    }
    return true;
  };
  MaskList needed;
  for (OptionMask& mask : masks) {
    if (std::any_of(needed.begin(), needed.end(),
                    [&](const OptionMask& other) { return dominates(other, mask); })) {
      continue;
    }
    std::erase_if(needed, [&](const OptionMask& other) { return dominates(mask, other); });
    needed.push_back(std::move(mask));
  }
  return needed;
}

}  // namespace

std::vector<OptionMask> RelaxedMasks(const StrategySpace& space, const OptionTable& table) {
  if (!table.usable()) return {};
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  const int definition_count = static_cast<int>(definitions.size());
  const bool per_layer = space.dimensions().has(SearchDimension::kPerLayer);
  MaskList masks;
  const auto is_chosen = [&](int definition) {
    return !per_layer && IsTransformer(definitions[definition].kind) &&
           !table.options(definition).empty();
  };
  // [definition] the strategy all its layers have in the whole plan, if there must be one.
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
  // Tries all combinations of strategies for the definitions from `next` on that may go together.
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
  // In this case every layer has the degrees and the rank order of the others.
  const bool has_one_layout =
      !per_layer && !space.dimensions().has(SearchDimension::kEndStrategies);
  return has_one_layout ? Undominated(table, std::move(masks)) : masks;
}

std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table) {
  MaskList relaxed = RelaxedMasks(space, table);
  const std::vector<int> holders = TableHolders(space, table);
  if (holders.empty()) return relaxed;
  MaskList masks;
  for (const OptionMask& mask : relaxed) {
    MaskList split = SplitByTable(table, mask, holders);
    if (space.dimensions().has(SearchDimension::kEndStrategies)) {
      split = WithoutWorseTables(table, std::move(split), holders);
    }
    std::move(split.begin(), split.end(), std::back_inserter(masks));
  }
  return masks;
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
