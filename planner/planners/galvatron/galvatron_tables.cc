#include "planner/planners/galvatron/galvatron_tables.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"
#include "planner/search/space/layout_index.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the papers' tree has the new field");

// Operations that listing and pricing the options of a kind of unit count as, roughly: 0.1 to 0.3
// ms. Not measured for other values.
constexpr int64_t kWorkOfKind = 40'000;

bool InTree(const Strategy& strategy, bool with_recompute) {
  if (strategy.context_parallel_degree != 1 || strategy.expert_parallel_degree != 1 ||
      strategy.expert_tensor_parallel_degree != 0 || strategy.sharding_degree != 0) {
    return false;
  }
  if (strategy.sharding_level != ShardingLevel::kNone &&
      strategy.sharding_level != ShardingLevel::kParameters) {
    return false;
  }
  return strategy.recompute_level == RecomputeLevel::kNone ||
         (with_recompute && strategy.recompute_level == RecomputeLevel::kFull);
}

// Returns whether a layer without a strategy of its own may have `strategy` next to a layer under
// `neighbour`.
bool Follows(const Strategy& strategy, const Strategy& neighbour) {
  return strategy.tensor_parallel_degree == neighbour.tensor_parallel_degree &&
         strategy.data_parallel_degree == neighbour.data_parallel_degree &&
         strategy.rank_order == neighbour.rank_order &&
         strategy.sharding_level == neighbour.sharding_level;
}

}  // namespace

GalvatronTables::GalvatronTables(const StrategySpace& space, const CostModel& costs,
                                 int pipeline_parallel_degree, int64_t micro_batch_size,
                                 bool with_recompute, SearchMeter* meter)
    : pipeline_parallel_degree_(pipeline_parallel_degree), micro_batch_size_(micro_batch_size) {
  AddUnits(space);
  usable_ = static_cast<int>(kind_of_unit_.size()) >= pipeline_parallel_degree;
  for (GalvatronKind& kind : kinds_) {
    if (meter != nullptr && !meter->Work(kWorkOfKind)) usable_ = false;
    if (!usable_) return;
    AddOptions(space, costs, with_recompute, kind);
    if (kind.options.empty()) usable_ = false;
  }
  for (GalvatronKind& kind : kinds_) AddTransitions(costs, kind);
}

void GalvatronTables::AddUnits(const StrategySpace& space) {
  const ModelSpec& model = space.problem().model();
  const bool own_ends = space.dimensions().has(SearchDimension::kEndStrategies);
  // A unit of its own could be a stage of its own.
  const bool are_joined = !own_ends || space.target().transformer_in_each_stage;
  const int fused_count = space.problem().rules().fused_layer_count;
  std::vector<std::vector<int>> units;
  std::vector<char> has_transformer;
  // Transformer layers in the last unit, all of one definition.
  int transformer_count = 0;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const int definition = model.definition_of_layer()[layer];
    const bool is_transformer = IsTransformer(model.layer(layer).kind);
    // An end layer joins the unit before it; the first ones join the unit of the first transformer
    // layer.
    const bool joins_end =
        are_joined && !units.empty() && (!is_transformer || !has_transformer.back());
    const bool is_fused = is_transformer && transformer_count > 0 &&
                          transformer_count < fused_count && units.back().back() == definition;
    if (!joins_end && !is_fused) {
      units.emplace_back();
      has_transformer.push_back(0);
      transformer_count = 0;
    }
    units.back().push_back(definition);
    if (!is_transformer) continue;
    has_transformer.back() = 1;
    ++transformer_count;
  }
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const auto same = std::find_if(kinds_.begin(), kinds_.end(), [&](const GalvatronKind& kind) {
      return kind.definitions == units[unit];
    });
    kind_of_unit_.push_back(static_cast<int>(same - kinds_.begin()));
    if (same != kinds_.end()) continue;
    kinds_.push_back({.definitions = units[unit], .has_transformer = has_transformer[unit] != 0});
  }
}

void GalvatronTables::AddOptions(const StrategySpace& space, const CostModel& costs,
                                 bool with_recompute, GalvatronKind& kind) {
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  // [layer of the unit]
  std::vector<std::vector<Strategy>> strategies;
  size_t leader = 0;
  for (size_t index = 0; index < kind.definitions.size(); ++index) {
    const int definition = kind.definitions[index];
    strategies.push_back(
        space.Strategies(definition, pipeline_parallel_degree_, micro_batch_size_));
    std::erase_if(strategies.back(), [with_recompute](const Strategy& strategy) {
      return !InTree(strategy, with_recompute);
    });
    if (IsTransformer(definitions[definition].kind)) leader = index;
  }
  // Layers at the ends follow, or all have one of the strategies of the first of them.
  std::vector<const Strategy*> choices = {nullptr};
  if (space.dimensions().has(SearchDimension::kEndStrategies)) {
    for (size_t index = 0; index < strategies.size(); ++index) {
      if (index == leader || IsTransformer(definitions[kind.definitions[index]].kind)) continue;
      choices.clear();
      for (const Strategy& strategy : strategies[index]) choices.push_back(&strategy);
      break;
    }
  }
  for (const Strategy& leading : strategies[leader]) {
    for (const Strategy* const of_end : choices) {
      AddOption(space, costs, strategies, leader, leading, of_end, kind);
    }
  }
}

void GalvatronTables::AddOption(const StrategySpace& space, const CostModel& costs,
                                const std::vector<std::vector<Strategy>>& strategies, size_t leader,
                                const Strategy& leading, const Strategy* of_end,
                                GalvatronKind& kind) {
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  GalvatronOption option;
  for (size_t index = 0; index < strategies.size(); ++index) {
    const int definition = kind.definitions[index];
    const auto strategy =
        std::find_if(strategies[index].begin(), strategies[index].end(), [&](const Strategy& each) {
          if (definition == kind.definitions[leader]) return each == leading;
          const bool has_own = of_end != nullptr && !IsTransformer(definitions[definition].kind);
          return has_own ? each == *of_end : Follows(each, leading);
        });
    if (strategy == strategies[index].end()) return;
    const LayerCost cost = costs.searched_group().CostOfLayer(
        definition, *strategy, micro_batch_size_, pipeline_parallel_degree_);
    option.micro_batch += cost.forward + cost.backward;
    if (index > 0) {
      option.micro_batch += costs.searched_group().TransitionTime(
          definition, option.strategies.back(), *strategy, micro_batch_size_);
    }
    option.once += cost.gradient_sync + cost.optimizer_step;
    option.states += cost.states();
    option.kept += cost.kept_per_micro_batch();
    option.transient = std::max(option.transient, cost.transient());
    option.strategies.push_back(*strategy);
    option.costs.push_back(cost);
  }
  option.layout = LayoutIndex(leading, layouts_);
  kind.options.push_back(std::move(option));
}

void GalvatronTables::AddTransitions(const CostModel& costs, GalvatronKind& kind) const {
  kind.transitions.resize(layouts_.size() * layouts_.size());
  for (const GalvatronOption& option : kind.options) {
    for (size_t from = 0; from < layouts_.size(); ++from) {
      kind.transitions[from * layouts_.size() + option.layout] =
          costs.searched_group().TransitionTime(kind.definitions.front(), layouts_[from],
                                                option.strategies.front(), micro_batch_size_);
    }
  }
}

template <typename Refuses>
std::optional<GalvatronTables> GalvatronTables::Without(const Refuses& refuses) const {
  GalvatronTables rest = *this;
  for (GalvatronKind& kind : rest.kinds_) {
    std::erase_if(kind.options, [&](const GalvatronOption& option) {
      for (size_t layer = 0; layer < kind.definitions.size(); ++layer) {
        if (refuses(kind.definitions[layer], option.strategies[layer])) return true;
      }
      return false;
    });
    if (kind.options.empty()) return std::nullopt;
  }
  return rest;
}

template <typename Belongs, typename Alike>
std::vector<GalvatronTables> GalvatronTables::OneForEach(const Belongs& belongs,
                                                         const Alike& alike) const {
  std::vector<Strategy> wanted;
  for (const GalvatronKind& kind : kinds_) {
    for (size_t layer = 0; layer < kind.definitions.size(); ++layer) {
      if (!belongs(kind.definitions[layer])) continue;
      for (const GalvatronOption& option : kind.options) {
        const Strategy& strategy = option.strategies[layer];
        if (std::none_of(wanted.begin(), wanted.end(),
                         [&](const Strategy& other) { return alike(other, strategy); })) {
          wanted.push_back(strategy);
        }
      }
    }
  }
  if (wanted.empty()) return {*this};
  std::vector<GalvatronTables> tables;
  for (const Strategy& each : wanted) {
    std::optional<GalvatronTables> rest = Without([&](int definition, const Strategy& strategy) {
      return belongs(definition) && !alike(strategy, each);
    });
    if (rest.has_value()) tables.push_back(*std::move(rest));
  }
  return tables;
}

std::vector<GalvatronTables> GalvatronTables::SequenceParallelChoices(
    const StrategySpace& space) const {
  std::vector<GalvatronTables> tables;
  for (const bool wanted : {false, true}) {
    bool is_cut = false;
    std::optional<GalvatronTables> rest = Without([&](int, const Strategy& strategy) {
      const bool is_refused = space.CommonSequenceParallel(strategy).value_or(wanted) != wanted;
      is_cut = is_cut || is_refused;
      return is_refused;
    });
    if (!is_cut) return {*this};
    if (rest.has_value()) tables.push_back(*std::move(rest));
  }
  return tables;
}

std::vector<GalvatronTables> GalvatronTables::Choices(const StrategySpace& space) const {
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  const auto holds_table = [&space](int definition) { return space.HoldsTiedTable(definition); };
  const auto is_bound_end = [&](int definition) {
    return space.target().ends_alike && !IsTransformer(definitions[definition].kind);
  };
  std::vector<GalvatronTables> choices;
  for (const GalvatronTables& of_transformers : TransformerChoices(space)) {
    for (const GalvatronTables& of_table :
         of_transformers.OneForEach(holds_table, HoldTableAlike)) {
      for (const GalvatronTables& of_ends :
           of_table.OneForEach(is_bound_end, std::equal_to<Strategy>())) {
        std::vector<GalvatronTables> all = of_ends.SequenceParallelChoices(space);
        std::move(all.begin(), all.end(), std::back_inserter(choices));
      }
    }
  }
  return choices;
}

std::vector<GalvatronTables> GalvatronTables::TransformerChoices(const StrategySpace& space) const {
  if (space.dimensions().has(SearchDimension::kPerLayer)) return {*this};
  const std::vector<LayerDefinition>& definitions = space.problem().model().layer_definitions();
  // Returns the transformer layer of a unit.
  const auto leader = [&definitions](const GalvatronKind& kind) {
    size_t index = 0;
    while (!IsTransformer(definitions[kind.definitions[index]].kind)) ++index;
    return index;
  };
  const auto first = std::find_if(kinds_.begin(), kinds_.end(),
                                  [](const GalvatronKind& kind) { return kind.has_transformer; });
  if (first == kinds_.end()) return {*this};
  std::vector<GalvatronTables> choices;
  const size_t first_leader = leader(*first);
  for (const GalvatronOption& wanted : first->options) {
    GalvatronTables choice = *this;
    for (GalvatronKind& kind : choice.kinds_) {
      if (!kind.has_transformer) continue;
      const size_t index = leader(kind);
      std::erase_if(kind.options, [&](const GalvatronOption& option) {
        return !space.GoTogether(first->definitions[first_leader], wanted.strategies[first_leader],
                                 kind.definitions[index], option.strategies[index]);
      });
      if (kind.options.empty()) choice.usable_ = false;
    }
    if (choice.usable_) choices.push_back(std::move(choice));
  }
  return choices;
}

Seconds GalvatronTables::LowerBound(int64_t micro_batch_count) const {
  std::vector<Seconds> least(kinds_.size(), Seconds::Infinite());
  std::vector<Seconds> least_work(kinds_.size(), Seconds::Infinite());
  const auto m = static_cast<double>(micro_batch_count);
  for (size_t kind = 0; kind < kinds_.size(); ++kind) {
    for (const GalvatronOption& option : kinds_[kind].options) {
      least[kind] = std::min(least[kind], option.micro_batch);
      least_work[kind] = std::min(least_work[kind], option.micro_batch * m + option.once);
    }
  }
  Seconds all, work;
  for (int kind : kind_of_unit_) {
    all += least[kind];
    work += least_work[kind];
  }
  const double waiting = 1.0 - std::pow(1.0 - 1.0 / m, pipeline_parallel_degree_);
  // Covers the rounding of sums.
  return std::max(all / waiting, work / pipeline_parallel_degree_) * (1.0 - 1e-12);
}

}  // namespace parplan
