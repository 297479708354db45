#include "planner/search/option_table.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "planner/cost/layer_pricing.h"

namespace parplan {
namespace {

// What the optimizer's step leaves of `StageOption::states`.
struct PricedOption {
  StageOption option;
  Bytes states_in_step;
};

bool NowhereWorse(const PricedOption& a, const PricedOption& b) {
  const StageOption& x = a.option;
  const StageOption& y = b.option;
  return x.forward <= y.forward && x.backward <= y.backward && x.sync <= y.sync &&
         x.states <= y.states && x.kept <= y.kept && x.transient <= y.transient &&
         x.step <= y.step && x.bucket <= y.bucket && x.communicator_count <= y.communicator_count &&
         a.states_in_step <= b.states_in_step;
}

// True of equal strategies, too.
bool DifferInOrderOnly(Strategy a, const Strategy& b) {
  a.rank_order = b.rank_order;
  return a == b;
}

PricedOption Priced(const Strategy& strategy, int layout, const LayerCost& cost,
                    int pipeline_parallel_degree) {
  return {.option = {.strategy = strategy,
                     .layout = layout,
                     .forward = cost.forward,
                     .backward = cost.backward,
                     .sync = cost.gradient_sync + cost.optimizer_step,
                     .states = cost.states(),
                     .kept = cost.kept_per_micro_batch(),
                     .transient = cost.transient(),
                     .step = cost.memory.step,
                     .bucket = cost.memory.bucket,
                     .communicator_count = CommunicatorCount(strategy, pipeline_parallel_degree,
                                                             /*has_tied_table_elsewhere=*/false)},
          .states_in_step = cost.memory.states()};
}

}  // namespace

OptionTable::OptionTable(const PlanningProblem& problem, const CostModel& costs,
                         const StrategySpace& space, int pipeline_parallel_degree,
                         int64_t micro_batch_size)
    : pipeline_parallel_degree_(pipeline_parallel_degree),
      rank_count_(problem.device_count() / pipeline_parallel_degree),
      micro_batch_size_(micro_batch_size),
      binds_neighbours_(space.dimensions().has(SearchDimension::kPerLayer) &&
                        !space.dimensions().has(SearchDimension::kEndStrategies)) {
  const ModelSpec& model = problem.model();
  const size_t definition_count = model.layer_definitions().size();
  options_.resize(definition_count);
  gathers_.resize(definition_count);
  messages_.resize(definition_count);
  for (const ModelLayerRun& run : model.layer_runs()) {
    if (!options_[run.definition_index].empty()) continue;
    AddOptions(costs, space, run.definition_index);
    if (!options_[run.definition_index].empty()) continue;
    usable_ = false;
    return;
  }
  for (size_t definition = 0; definition < definition_count; ++definition) {
    if (!options_[definition].empty()) PriceMoves(costs, static_cast<int>(definition));
  }
}

int OptionTable::LayoutOf(const Strategy& strategy, bool of_end) {
  const bool has_own = binds_neighbours_ && of_end;
  int place = layout_count();
  for (int index = 0; index < layout_count(); ++index) {
    const Layout& layout = layouts_[index];
    const Strategy& other = layout.strategy;
    if (other.tensor_parallel_degree != strategy.tensor_parallel_degree ||
        other.data_parallel_degree != strategy.data_parallel_degree ||
        other.rank_order != strategy.rank_order) {
      continue;
    }
    place = std::min(place, layout.place);
    if (other.sequence_parallel == strategy.sequence_parallel && layout.of_end == has_own &&
        (!binds_neighbours_ || (other.sharding_level == strategy.sharding_level &&
                                other.context_kind == strategy.context_kind))) {
      return index;
    }
  }
  layouts_.push_back({strategy, place, has_own});
  return layout_count() - 1;
}

void OptionTable::AddOptions(const CostModel& costs, const StrategySpace& space,
                             int definition_index) {
  const bool of_end = !IsTransformer(costs.layer_source(definition_index).definition().kind);
  const bool with_selective = space.dimensions().has(SearchDimension::kSelectiveRecompute);
  const auto beats = [&](const PricedOption& a, const PricedOption& b) {
    return NowhereWorse(a, b) &&
           space.MayReplace(definition_index, b.option.strategy, a.option.strategy);
  };
  // [layout] those that nothing beats so far.
  std::vector<std::vector<PricedOption>> best(layouts_.size());
  const auto add = [&](const PricedOption& priced) {
    std::vector<PricedOption>& others = best[priced.option.layout];
    // Of equals the first in the order of strategies stays.
    for (const PricedOption& other : others) {
      if (beats(other, priced) &&
          (other.option.strategy < priced.option.strategy || !beats(priced, other))) {
        return;
      }
    }
    std::erase_if(others, [&](const PricedOption& other) { return beats(priced, other); });
    others.push_back(priced);
  };
  std::optional<LayerPricing> pricing;
  Strategy priced_strategy;
  for (Strategy strategy :
       space.BareStrategies(definition_index, pipeline_parallel_degree_, micro_batch_size_)) {
    if (pricing.has_value() && DifferInOrderOnly(priced_strategy, strategy)) {
      pricing->UseRankOrder(strategy.rank_order);
    } else {
      pricing.emplace(costs, definition_index, strategy, micro_batch_size_,
                      pipeline_parallel_degree_, with_selective);
    }
    priced_strategy = strategy;
    const auto recompute_levels = space.RecomputeLevels(pricing->footprint());
    for (const ShardingLevel sharding : space.ShardingLevels(strategy, pipeline_parallel_degree_)) {
      strategy.sharding_level = sharding;
      const int layout = LayoutOf(strategy, of_end);
      if (layout >= static_cast<int>(best.size())) best.resize(layout + 1);
      for (const RecomputeLevel recompute : recompute_levels) {
        strategy.recompute_level = recompute;
        add(Priced(strategy, layout, pricing->CostOf(sharding, recompute),
                   pipeline_parallel_degree_));
      }
    }
  }
  std::vector<StageOption>& options = options_[definition_index];
  for (const std::vector<PricedOption>& of_layout : best) {
    for (const PricedOption& priced : of_layout) options.push_back(priced.option);
  }
  std::sort(options.begin(), options.end(),
            [](const StageOption& a, const StageOption& b) { return a.strategy < b.strategy; });
}

void OptionTable::PriceMoves(const CostModel& costs, int definition_index) {
  const bool has_pipeline = pipeline_parallel_degree_ > 1;
  for (const Layout& layout : layouts_) {
    const Strategy& strategy = layout.strategy;
    gathers_[definition_index].push_back(
        costs.GatherTime(definition_index, strategy, micro_batch_size_));
    Sent message;
    if (has_pipeline) {
      message.size = costs.MessageSize(definition_index, strategy, micro_batch_size_);
      for (const bool leaves_node : {false, true}) {
        message.time[leaves_node ? 1 : 0] = costs.MessageTime(
            definition_index, strategy, rank_count_, leaves_node, micro_batch_size_);
      }
    }
    messages_[definition_index].push_back(message);
  }
}

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

// Leaves out a mask without options for a definition that has some, and what another
// mask allows as well.
void AddMask(OptionMask mask, MaskList& masks) {
  for (const std::vector<char>& of_definition : mask) {
    if (!of_definition.empty() &&
        std::none_of(of_definition.begin(), of_definition.end(), [](char bit) { return bit; })) {
      return;
    }
  }
  const auto within = [](const OptionMask& a, const OptionMask& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < a[i].size(); ++j) {
        if (a[i][j] && !b[i][j]) return false;
      }
    }
    return true;
  };
  if (std::any_of(masks.begin(), masks.end(), [&](const auto& one) { return within(mask, one); })) {
    return;
  }
  std::erase_if(masks, [&](const OptionMask& one) { return within(one, mask); });
  masks.push_back(std::move(mask));
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
  const auto goes_with_chosen = [&](int definition, const Strategy& strategy) {
    for (int other = 0; other < definition_count; ++other) {
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
      AddMask(MaskOf(table, definition_count, goes_with_chosen), masks);
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
  return masks;
}

LeastTimes LeastTimesOf(const PlanningProblem& problem, const CostModel& costs,
                        const StrategySpace& space, int pipeline_parallel_degree,
                        int64_t micro_batch_size) {
  return LeastTimesFinder(problem, costs, space).Find(pipeline_parallel_degree, micro_batch_size);
}

LeastTimes LeastTimesFinder::Find(int pipeline_parallel_degree, int64_t micro_batch_size) {
  const ModelSpec& model = problem_.model();
  const size_t count = model.layer_definitions().size();
  LeastTimes least;
  least.forward.assign(count, Seconds::Infinite());
  least.backward.assign(count, Seconds::Infinite());
  least.forward_and_backward.assign(count, Seconds::Infinite());
  for (const ModelLayerRun& run : model.layer_runs()) {
    const int definition = run.definition_index;
    if (least.forward[definition].is_finite()) continue;
    std::optional<LayerPricing> pricing;
    Strategy priced;
    for (const Strategy& strategy :
         space_.BareStrategies(definition, pipeline_parallel_degree, micro_batch_size)) {
      const Work work = {.definition_index = definition,
                         .samples = micro_batch_size / strategy.data_parallel_degree,
                         .tensor_parallel_degree = strategy.tensor_parallel_degree,
                         .context_parallel_degree = strategy.context_parallel_degree,
                         .expert_parallel_degree = strategy.expert_parallel_degree,
                         .context_kind = strategy.context_kind,
                         .tensor_stride = strategy.tensor_stride()};
      const auto [known, is_new] = passes_.try_emplace(work);
      if (is_new) {
        if (pricing.has_value() && DifferInOrderOnly(priced, strategy)) {
          pricing->UseRankOrder(strategy.rank_order);
        } else {
          pricing.emplace(costs_, definition, strategy, micro_batch_size, pipeline_parallel_degree,
                          /*with_selective_recompute=*/false);
        }
        priced = strategy;
        known->second = pricing->BarePasses();
      }
      const LayerPricing::Passes& passes = known->second;
      least.forward[definition] = std::min(least.forward[definition], passes.forward);
      least.backward[definition] = std::min(least.backward[definition], passes.backward);
      least.forward_and_backward[definition] =
          std::min(least.forward_and_backward[definition], passes.forward + passes.backward);
    }
    if (!least.forward[definition].is_finite()) {
      least.usable = false;
      return least;
    }
  }
  return least;
}

}  // namespace parplan
