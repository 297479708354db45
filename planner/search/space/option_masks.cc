// Masks over an option table (`PlanWideMasks` of option_table.h).

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"
#include "planner/search/space/allowed_options.h"
#include "planner/search/space/option_table.h"
#include "planner/search/space/undominated_masks.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether all transformer layers share the new field");

using MaskList = std::vector<OptionMask>;

OptionMask MaskOf(const OptionTable& table, const OptionLists& lists) {
  OptionMask mask(lists.size());
  for (size_t definition = 0; definition < lists.size(); ++definition) {
    mask[definition].resize(table.options(static_cast<int>(definition)).size());
    for (const int index : lists[definition]) mask[definition][index] = 1;
  }
  return mask;
}

bool LeavesNoOption(const OptionMask& mask) {
  return std::any_of(mask.begin(), mask.end(), [](const std::vector<char>& bits) {
    return !bits.empty() && std::none_of(bits.begin(), bits.end(), [](char bit) { return bit; });
  });
}

// Operations that making a mask counts as: it looks at the options of a few definitions. Rough; a
// mask of DeepSeek-V3 on 16,384 devices takes 10 us.
constexpr int64_t kWorkOfMask = 1'000;
// The same for a combination of options that is refused.
constexpr int64_t kWorkOfRefusal = 20;

// The parts of a strategy in which transformer layers of different definitions agree if all must
// have one strategy.
Strategy SharedPart(Strategy strategy) {
  strategy.sequence_parallel = false;
  strategy.expert_parallel_degree = 1;
  strategy.expert_tensor_parallel_degree = 0;
  return strategy;
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
// holders may have any neighbours; among equal ones the first. Some are missing once `works` has
// returned false.
MaskList WithoutWorseTables(const OptionTable& table, MaskList masks,
                            const std::vector<int>& holders, const WorkCounter& works) {
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
    if (works && !works(kWorkOfMask * static_cast<int64_t>(needed.size() + 1))) return {};
    if (std::any_of(needed.begin(), needed.end(),
                    [&](const OptionMask& other) { return dominates(other, mask); })) {
      continue;
    }
    std::erase_if(needed, [&](const OptionMask& other) { return dominates(mask, other); });
    needed.push_back(std::move(mask));
  }
  return needed;
}

// Returns the parts of the masks in which all options agree on a choice; `choice_of` returns that
// of a strategy, or nothing if it goes with any. Each mask has one part for each of its choices.
template <typename ChoiceOf>
MaskList SplitByChoice(const OptionTable& table, MaskList masks, const WorkCounter& works,
                       const ChoiceOf& choice_of) {
  MaskList split;
  if (masks.empty()) return split;
  // [definition][option], asked once for all masks, which may be thousands.
  std::vector<std::vector<std::optional<int>>> choice_of_option(masks.front().size());
  for (size_t definition = 0; definition < choice_of_option.size(); ++definition) {
    for (const StageOption& option : table.options(static_cast<int>(definition))) {
      choice_of_option[definition].push_back(choice_of(option.strategy));
    }
  }
  for (OptionMask& mask : masks) {
    if (works && !works(kWorkOfMask)) return {};
    std::vector<int> choices;
    for (size_t definition = 0; definition < mask.size(); ++definition) {
      ForEachAllowed(mask[definition], [&](int index) {
        const std::optional<int> choice = choice_of_option[definition][index];
        if (choice.has_value() &&
            std::find(choices.begin(), choices.end(), *choice) == choices.end()) {
          choices.push_back(*choice);
        }
      });
    }
    if (choices.size() < 2) {
      split.push_back(std::move(mask));
      continue;
    }
    for (const int wanted : choices) {
      OptionMask part = mask;
      for (size_t definition = 0; definition < part.size(); ++definition) {
        for (size_t index = 0; index < part[definition].size(); ++index) {
          if (choice_of_option[definition][index].value_or(wanted) != wanted) {
            part[definition][index] = 0;
          }
        }
      }
      if (!LeavesNoOption(part)) split.push_back(std::move(part));
    }
  }
  return split;
}

// Returns the parts of the masks in which all layers agree on what the target has once for all.
MaskList SplitByCommonChoices(const StrategySpace& space, const OptionTable& table, MaskList masks,
                              const WorkCounter& works) {
  using Choice = std::optional<int>;
  masks = SplitByChoice(table, std::move(masks), works, [&space](const Strategy& strategy) {
    const std::optional<ShardingLevel> level = space.CommonLevel(strategy);
    return level.has_value() ? Choice(static_cast<int>(*level)) : std::nullopt;
  });
  return SplitByChoice(table, std::move(masks), works, [&space](const Strategy& strategy) {
    const std::optional<bool> is_split = space.CommonSequenceParallel(strategy);
    return is_split.has_value() ? Choice(*is_split ? 1 : 0) : std::nullopt;
  });
}

// Returns the definitions of embeddings and heads that must have one strategy; none if there are
// fewer than two.
std::vector<int> BoundEnds(const StrategySpace& space, const OptionTable& table) {
  std::vector<int> ends;
  if (!space.target().ends_alike) return ends;
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  for (size_t definition = 0; definition < definitions.size(); ++definition) {
    const int index = static_cast<int>(definition);
    if (!IsTransformer(definitions[definition].kind) && !table.options(index).empty()) {
      ends.push_back(index);
    }
  }
  if (ends.size() < 2) ends.clear();
  return ends;
}

// Returns one mask for each strategy that all of `ends` have.
MaskList SplitByEnds(const OptionTable& table, const OptionMask& mask,
                     const std::vector<int>& ends) {
  MaskList split;
  const std::vector<StageOption>& choices = table.options(ends.front());
  for (size_t choice = 0; choice < choices.size(); ++choice) {
    if (!mask[ends.front()][choice]) continue;
    OptionMask part = mask;
    for (const int end : ends) {
      const std::vector<StageOption>& options = table.options(end);
      for (size_t index = 0; index < options.size(); ++index) {
        if (options[index].strategy != choices[choice].strategy) part[end][index] = 0;
      }
    }
    if (!LeavesNoOption(part)) split.push_back(std::move(part));
  }
  return split;
}

}  // namespace

std::vector<OptionMask> RelaxedMasks(const StrategySpace& space, const OptionTable& table,
                                     const MaskFilter& keeps, const WorkCounter& works) {
  if (!table.usable()) return {};
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  const int definition_count = static_cast<int>(definitions.size());
  const bool per_layer = space.dimensions().has(SearchDimension::kPerLayer);
  // Definitions of transformer layers, if all layers of each have one strategy in the whole plan.
  std::vector<int> bound;
  // [position in `bound`] the options by the part of the strategy that all definitions share.
  std::vector<std::map<Strategy, std::vector<int>>> alike;
  for (int definition = 0; definition < definition_count && !per_layer; ++definition) {
    const std::vector<StageOption>& options = table.options(definition);
    if (!IsTransformer(definitions[definition].kind) || options.empty()) continue;
    bound.push_back(definition);
    std::map<Strategy, std::vector<int>>& groups = alike.emplace_back();
    for (int index = 0; index < static_cast<int>(options.size()); ++index) {
      groups[SharedPart(options[index].strategy)].push_back(index);
    }
  }
  // [definition] the option all its layers have, or -1.
  std::vector<int> chosen(definition_count, -1);
  const auto goes_with_chosen = [&](int definition, const Strategy& strategy) {
    return std::all_of(bound.begin(), bound.end(), [&](int other) {
      return chosen[other] < 0 ||
             space.GoTogether(other, table.options(other)[chosen[other]].strategy, definition,
                              strategy);
    });
  };
  // The options of the other definitions beside transformer layers of one strategy. They do not
  // depend on its recomputation.
  std::map<Strategy, OptionLists> others;
  const auto others_beside = [&](Strategy strategy) -> const OptionLists& {
    strategy.set_recomputation(RecomputeLevel::kNone);
    const auto [found, is_new] = others.try_emplace(strategy, definition_count);
    for (int definition = 0; definition < definition_count && is_new; ++definition) {
      if (chosen[definition] >= 0) continue;
      const std::vector<StageOption>& options = table.options(definition);
      for (int index = 0; index < static_cast<int>(options.size()); ++index) {
        if (!goes_with_chosen(definition, options[index].strategy)) continue;
        found->second[definition].push_back(index);
      }
    }
    return found->second;
  };
  std::vector<OptionLists> masks;
  // Tries all combinations of options for the definitions from `position` on that may go together.
  const std::function<void(size_t, const Strategy&)> choose = [&](size_t position,
                                                                  const Strategy& shared) {
    if (position == bound.size()) {
      if ((keeps && !keeps(chosen)) || (works && !works(kWorkOfMask))) return;
      OptionLists lists = others_beside(shared);
      bool is_whole = true;
      for (int definition = 0; definition < definition_count; ++definition) {
        if (chosen[definition] >= 0) lists[definition] = {chosen[definition]};
        is_whole &= !lists[definition].empty() || table.options(definition).empty();
      }
      if (is_whole) masks.push_back(std::move(lists));
      return;
    }
    const int definition = bound[position];
    const std::vector<StageOption>& options = table.options(definition);
    const auto try_option = [&](int index) {
      // A combination that is refused takes a few looks at other definitions.
      if (works && !works(kWorkOfRefusal)) return;
      if (!goes_with_chosen(definition, options[index].strategy)) return;
      chosen[definition] = index;
      // A refusal before all have chosen holds whatever the others choose.
      if (position + 1 == bound.size() || !keeps || keeps(chosen)) {
        choose(position + 1, SharedPart(options[index].strategy));
      }
      chosen[definition] = -1;
    };
    if (position == 0) {
      for (int index = 0; index < static_cast<int>(options.size()); ++index) try_option(index);
      return;
    }
    const auto group = alike[position].find(shared);
    if (group == alike[position].end()) return;
    for (const int index : group->second) try_option(index);
  };
  choose(0, Strategy());
  // In this case every layer has the degrees and the rank order of the others.
  const bool has_one_layout =
      !per_layer && !space.dimensions().has(SearchDimension::kEndStrategies);
  if (has_one_layout) {
    masks = UndominatedMasks(table, std::move(masks), works);
  }
  MaskList list;
  for (const OptionLists& lists : masks) {
    if (works && !works(kWorkOfMask)) return {};
    list.push_back(MaskOf(table, lists));
  }
  return list;
}

std::vector<OptionMask> PlanWideMasks(const StrategySpace& space, const OptionTable& table,
                                      const MaskFilter& keeps, const WorkCounter& works) {
  MaskList relaxed =
      SplitByCommonChoices(space, table, RelaxedMasks(space, table, keeps, works), works);
  const std::vector<int> holders = TableHolders(space, table);
  const std::vector<int> ends = BoundEnds(space, table);
  if (holders.empty() && ends.empty()) return relaxed;
  // Holders of a tied table may be no ends: layers that predict further tokens.
  std::vector<int> bound = holders;
  for (const int end : ends) {
    if (std::find(bound.begin(), bound.end(), end) == bound.end()) bound.push_back(end);
  }
  MaskList masks;
  for (const OptionMask& mask : relaxed) {
    if (works && !works(kWorkOfMask)) return {};
    MaskList split = holders.empty() ? MaskList{mask} : SplitByTable(table, mask, holders);
    if (!ends.empty()) {
      MaskList alike;
      for (const OptionMask& part : split) {
        MaskList of_part = SplitByEnds(table, part, ends);
        std::move(of_part.begin(), of_part.end(), std::back_inserter(alike));
      }
      split = std::move(alike);
    }
    if (space.dimensions().has(SearchDimension::kEndStrategies)) {
      split = WithoutWorseTables(table, std::move(split), bound, works);
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
