#include "planner/planners/exact/pipeline/block_choice.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "planner/model/strategy_fields.h"
#include "planner/search/space/option_costs.h"
#include "planner/search/space/undominated_items.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether all layers share the new field");

// Returns the parts of a strategy in which all layers of a plan agree.
Strategy SharedPart(Strategy strategy) {
  strategy.set_recomputation(RecomputeLevel::kNone);
  strategy.sequence_parallel = false;
  strategy.expert_parallel_degree = 1;
  strategy.expert_tensor_parallel_degree = 0;
  return strategy;
}

// The definitions that layers have, in the order in which layers first have them.
std::vector<int> UsedDefinitions(const ModelSpec& model) {
  std::vector<int> used;
  for (const ModelLayerRun& run : model.layer_runs()) {
    if (std::find(used.begin(), used.end(), run.definition_index) == used.end()) {
      used.push_back(run.definition_index);
    }
  }
  return used;
}

// Returns the index of the option with this strategy, or -1.
int FindOption(const std::vector<StageOption>& options, const Strategy& strategy) {
  const auto found = std::lower_bound(
      options.begin(), options.end(), strategy,
      [](const StageOption& option, const Strategy& wanted) { return option.strategy < wanted; });
  if (found == options.end() || found->strategy != strategy) return -1;
  return static_cast<int>(found - options.begin());
}

// Returns whether an option costs no more than another one of the definition.
bool CostsNoMore(const OptionTable& table, int definition, int better, int worse) {
  const StageOption& a = table.options(definition)[better];
  const StageOption& b = table.options(definition)[worse];
  if (!a.NowhereWorse(b)) return false;
  return table.Message(definition, a.layout) <= table.Message(definition, b.layout) &&
         table.Send(definition, a.layout, a.layout, /*leaves_node=*/false) <=
             table.Send(definition, b.layout, b.layout, /*leaves_node=*/false) &&
         table.Send(definition, a.layout, a.layout, /*leaves_node=*/true) <=
             table.Send(definition, b.layout, b.layout, /*leaves_node=*/true);
}

bool DominatesChoice(const OptionTable& table, const BlockChoice& a, const BlockChoice& b) {
  for (size_t definition = 0; definition < a.whole.size(); ++definition) {
    if (a.whole[definition] < 0) continue;
    const int index = static_cast<int>(definition);
    if (!CostsNoMore(table, index, a.whole[definition], b.whole[definition])) return false;
    if (a.recomputed[definition] >= 0 &&
        !CostsNoMore(table, index, a.recomputed[definition], b.recomputed[definition])) {
      return false;
    }
  }
  return true;
}

// The sums over all options of a choice of what `CostsNoMore` compares. A choice that dominates
// another one has no larger sum, whether rounded or not, because the terms are added in one order.
OptionCosts CostsOf(const OptionTable& table, const BlockChoice& choice) {
  OptionCosts sums = {};
  const auto add = [&](int definition, int index) {
    if (index < 0) return;
    const OptionCosts costs = CostsOfOption(table, definition, table.options(definition)[index]);
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += costs[k];
  };
  for (size_t definition = 0; definition < choice.whole.size(); ++definition) {
    const int index = static_cast<int>(definition);
    add(index, choice.whole[definition]);
    add(index, choice.recomputed[definition]);
  }
  return sums;
}

}  // namespace

std::vector<BlockChoice> BlockChoicesOf(const StrategySpace& space, const OptionTable& table) {
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  const std::vector<int> used = UsedDefinitions(space.problem().model());
  // By the shared part: [position in `used`] the options without recomputation.
  std::map<Strategy, std::vector<std::vector<int>>> groups;
  for (size_t position = 0; position < used.size(); ++position) {
    const std::vector<StageOption>& options = table.options(used[position]);
    for (size_t index = 0; index < options.size(); ++index) {
      if (options[index].strategy.recompute_level != RecomputeLevel::kNone) continue;
      auto& group = groups[SharedPart(options[index].strategy)];
      group.resize(used.size());
      group[position].push_back(static_cast<int>(index));
    }
  }
  std::vector<BlockChoice> choices;
  BlockChoice choice;
  choice.whole.assign(definitions.size(), -1);
  choice.recomputed.assign(definitions.size(), -1);
  // Tries all options of the definitions from `position` on that go together with those before.
  const std::function<void(const std::vector<std::vector<int>>&, size_t)> choose =
      [&](const std::vector<std::vector<int>>& group, size_t position) {
        if (position == used.size()) {
          const bool recomputes = std::any_of(choice.recomputed.begin(), choice.recomputed.end(),
                                              [](int option) { return option >= 0; });
          if (recomputes) choices.push_back(choice);
          return;
        }
        const int definition = used[position];
        const std::vector<StageOption>& options = table.options(definition);
        for (const int index : group[position]) {
          const Strategy& strategy = options[index].strategy;
          bool goes_together = true;
          for (size_t other = 0; other < position && goes_together; ++other) {
            const Strategy& before = table.options(used[other])[choice.whole[used[other]]].strategy;
            goes_together = space.GoTogether(used[other], before, definition, strategy);
          }
          if (!goes_together) continue;
          int recomputed = -1;
          if (IsRecomputedInBlocks(definitions[definition])) {
            Strategy repeats = strategy;
            repeats.recompute_level = RecomputeLevel::kFull;
            recomputed = FindOption(options, repeats);
            if (recomputed < 0) continue;
          }
          choice.whole[definition] = index;
          choice.recomputed[definition] = recomputed;
          choose(group, position + 1);
        }
      };
  for (const auto& [shared, group] : groups) {
    const bool is_whole = std::none_of(group.begin(), group.end(),
                                       [](const std::vector<int>& list) { return list.empty(); });
    if (is_whole) choose(group, 0);
  }
  return choices;
}

std::vector<BlockChoice> UndominatedBlocks(const OptionTable& table,
                                           std::vector<BlockChoice> choices) {
  std::vector<OptionCosts> costs;
  costs.reserve(choices.size());
  for (const BlockChoice& choice : choices) costs.push_back(CostsOf(table, choice));
  std::vector<BlockChoice> undominated;
  for (const int index : UndominatedItems(
           costs, [&](int a, int b) { return DominatesChoice(table, choices[a], choices[b]); })) {
    undominated.push_back(std::move(choices[index]));
  }
  return undominated;
}

OptionMask MaskOf(const OptionTable& table, const BlockChoice& choice) {
  OptionMask mask(choice.whole.size());
  for (size_t definition = 0; definition < mask.size(); ++definition) {
    mask[definition].resize(table.options(static_cast<int>(definition)).size());
    for (const int option : {choice.whole[definition], choice.recomputed[definition]}) {
      if (option >= 0) mask[definition][option] = 1;
    }
  }
  return mask;
}

std::vector<int> BlockOptions(const PipelineSetting& setting, const BlockChoice& choice, int count,
                              int first_layer, int end_layer) {
  std::vector<int> options;
  options.reserve(end_layer - first_layer);
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const int definition = setting.definition_of(layer);
    const bool is_recomputed = choice.recomputed[definition] >= 0 && count-- > 0;
    options.push_back(is_recomputed ? choice.recomputed[definition] : choice.whole[definition]);
  }
  return options;
}

int BlockLayerCount(const PipelineSetting& setting, int first_layer, int end_layer) {
  int count = 0;
  for (int layer = first_layer; layer < end_layer; ++layer) {
    const int definition = setting.definition_of(layer);
    if (IsRecomputedInBlocks(setting.problem().model().layer_definitions()[definition])) ++count;
  }
  return count;
}

}  // namespace parplan
