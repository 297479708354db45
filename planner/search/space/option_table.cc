#include "planner/search/space/option_table.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/layer_pricing.h"
#include "planner/cost/rank_memory.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

StageOption OptionOf(const Strategy& strategy, int layout, const LayerCost& cost,
                     int pipeline_parallel_degree) {
  return {.strategy = strategy,
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
                                                  /*has_tied_table_elsewhere=*/false),
          .states_in_step = cost.memory.states()};
}

}  // namespace

bool StageOption::NeedsNoMoreMemory(const StageOption& other) const {
  return states <= other.states && kept <= other.kept && transient <= other.transient &&
         step <= other.step && bucket <= other.bucket &&
         communicator_count <= other.communicator_count && states_in_step <= other.states_in_step;
}

bool StageOption::NowhereWorse(const StageOption& other) const {
  return forward <= other.forward && backward <= other.backward && sync <= other.sync &&
         NeedsNoMoreMemory(other);
}

OptionTable::OptionTable(const PlanningProblem& problem, const CostModel& costs,
                         const StrategySpace& space, int pipeline_parallel_degree,
                         int64_t micro_batch_size, Keeps keeps,
                         const std::function<bool()>& should_stop)
    : pipeline_parallel_degree_(pipeline_parallel_degree),
      rank_count_(problem.device_count() / pipeline_parallel_degree),
      micro_batch_size_(micro_batch_size),
      binds_neighbours_(space.dimensions().has(SearchDimension::kPerLayer) &&
                        !space.dimensions().has(SearchDimension::kEndStrategies)) {
  const GroupCosts& group = costs.searched_group();
  const ModelSpec& model = problem.model();
  const size_t definition_count = model.layer_definitions().size();
  options_.resize(definition_count);
  resharding_.resize(definition_count);
  messages_.resize(definition_count);
  std::vector<OptionsByLayout> priced(definition_count);
  const auto must_stop = [&] {
    if (!should_stop || !should_stop()) return false;
    is_complete_ = usable_ = false;
    layouts_.clear();
    return true;
  };
  for (const ModelLayerRun& run : model.layer_runs()) {
    OptionsByLayout& of_definition = priced[run.definition_index];
    if (!of_definition.empty()) continue;
    if (must_stop()) return;
    of_definition = PriceOptions(group, space, run.definition_index, keeps);
    if (!of_definition.empty()) continue;
    usable_ = false;
    layouts_.clear();
    return;
  }
  for (size_t definition = 0; definition < definition_count; ++definition) {
    if (priced[definition].empty()) continue;
    if (must_stop()) return;
    priced[definition].resize(layouts_.size());
    PriceResharding(group, static_cast<int>(definition));
  }
  Keep(priced,
       keeps == Keeps::kAll ? std::vector<char>(layouts_.size(), 0)
                            : DominatedLayouts(space, priced),
       must_stop);
}

// The context-parallel degree follows from the degrees that are compared and the ranks of the
// stage. Recomputation and the spreading of experts do not move activations between layers, nor
// does sharding, which is compared for another reason (`Layout::of_end`).
static_assert(kStrategyFieldCount == 13, "say whether the new field makes another layout");

int OptionTable::LayoutOf(const Strategy& strategy, bool of_end) {
  const bool has_own = binds_neighbours_ && of_end;
  int place = layout_count();
  for (int index = 0; index < layout_count(); ++index) {
    const Layout& layout = layouts_[index];
    const Strategy& other = layout.strategy;
    if (other.tensor_parallel_degree != strategy.tensor_parallel_degree ||
        other.data_parallel_degree != strategy.data_parallel_degree ||
        other.rank_order != strategy.rank_order || other.context_kind != strategy.context_kind) {
      continue;
    }
    place = std::min(place, layout.place);
    if (other.sequence_parallel == strategy.sequence_parallel && layout.of_end == has_own &&
        (!binds_neighbours_ || other.sharding() == strategy.sharding())) {
      return index;
    }
  }
  layouts_.push_back({strategy, place, has_own});
  return layout_count() - 1;
}

OptionTable::OptionsByLayout OptionTable::PriceOptions(const GroupCosts& group,
                                                       const StrategySpace& space,
                                                       int definition_index, Keeps keeps) {
  const bool of_end = !IsTransformer(group.layer_source(definition_index).definition().kind);
  const DimensionSet dimensions = space.dimensions();
  const bool with_modules =
      dimensions.has(SearchDimension::kModuleRecompute) && keeps != Keeps::kAll;
  const RepeatedParts parts = with_modules ? RepeatedParts::kModules
                              : dimensions.has(SearchDimension::kSelectiveRecompute)
                                  ? RepeatedParts::kAttention
                                  : RepeatedParts::kWholeLayer;
  const auto dominates = [&](const StageOption& a, const StageOption& b) {
    return a.NowhereWorse(b) && space.MayReplace(definition_index, b.strategy, a.strategy);
  };
  const bool may_drop = keeps == Keeps::kUndominated && space.MayReplaceAny(definition_index);
  OptionsByLayout best;
  const auto add = [&](const StageOption& priced) {
    std::vector<StageOption>& others = best[priced.layout];
    if (!may_drop) {
      others.push_back(priced);
      return;
    }
    // Among equal options the first in the order of strategies stays.
    for (const StageOption& other : others) {
      if (dominates(other, priced) &&
          (other.strategy < priced.strategy || !dominates(priced, other))) {
        return;
      }
    }
    std::erase_if(others, [&](const StageOption& other) { return dominates(priced, other); });
    others.push_back(priced);
  };
  std::optional<LayerPricing> pricing;
  for (Strategy strategy :
       space.BareStrategies(definition_index, pipeline_parallel_degree_, micro_batch_size_)) {
    if (pricing.has_value() && pricing->Serves(strategy)) {
      pricing->UseRankOrder(strategy.rank_order);
    } else {
      pricing.emplace(group, definition_index, strategy, micro_batch_size_,
                      pipeline_parallel_degree_, parts);
    }
    const auto recomputations = space.Recomputations(pricing->footprint());
    for (const ShardingLevel sharding :
         space.ShardingLevels(definition_index, strategy, pipeline_parallel_degree_)) {
      for (const int degree : space.ShardingDegrees(strategy, sharding)) {
        strategy.set_sharding({sharding, degree});
        const int layout = LayoutOf(strategy, of_end);
        if (layout >= static_cast<int>(best.size())) best.resize(layout + 1);
        for (const Recomputation& recomputation : recomputations) {
          if (recomputation.level == RecomputeLevel::kModules && !with_modules) continue;
          strategy.set_recomputation(recomputation);
          const LayerCost cost = pricing->CostOf(strategy.sharding(), recomputation);
          add(OptionOf(strategy, layout, cost, pipeline_parallel_degree_));
        }
      }
    }
  }
  return best;
}

void OptionTable::PriceResharding(const GroupCosts& group, int definition_index) {
  const bool has_pipeline = pipeline_parallel_degree_ > 1;
  for (const Layout& layout : layouts_) {
    const Strategy& strategy = layout.strategy;
    resharding_[definition_index].push_back(
        group.ReshardingTimesOf(definition_index, strategy, micro_batch_size_));
    Sent message;
    if (has_pipeline) {
      message.size = group.MessageSize(definition_index, strategy, micro_batch_size_);
      const auto time = [&](bool leaves_node) {
        return group.MessageTime(definition_index, strategy, rank_count_, leaves_node,
                                 micro_batch_size_);
      };
      message.time_within_node = time(/*leaves_node=*/false);
      message.time_between_nodes = time(/*leaves_node=*/true);
    }
    messages_[definition_index].push_back(message);
  }
}

bool OptionTable::PlaceDominates(const StrategySpace& space,
                                 const std::vector<OptionsByLayout>& priced, int better,
                                 int worse) const {
  for (size_t definition = 0; definition < priced.size(); ++definition) {
    if (priced[definition].empty()) continue;
    for (int b = 0; b < layout_count(); ++b) {
      if (layouts_[b].place != worse) continue;
      // Find the layout of the other place with the same sequence parallelism.
      int a = 0;
      while (a < layout_count() &&
             (layouts_[a].place != better ||
              layouts_[a].strategy.sequence_parallel != layouts_[b].strategy.sequence_parallel)) {
        ++a;
      }
      if (a == layout_count()) return false;
      const GroupCosts::ReshardingTimes& moves_a = resharding_[definition][a];
      const GroupCosts::ReshardingTimes& moves_b = resharding_[definition][b];
      const Sent& sent_a = messages_[definition][a];
      const Sent& sent_b = messages_[definition][b];
      if (moves_a.gather > moves_b.gather || moves_a.regroup > moves_b.regroup ||
          moves_a.exchange > moves_b.exchange ||
          sent_a.time_within_node > sent_b.time_within_node ||
          sent_a.time_between_nodes > sent_b.time_between_nodes || sent_a.size > sent_b.size) {
        return false;
      }
      for (const StageOption& option : priced[definition][b]) {
        const std::vector<StageOption>& others = priced[definition][a];
        const bool is_dominated = std::any_of(others.begin(), others.end(), [&](const auto& other) {
          return other.NowhereWorse(option) &&
                 space.MayReplace(static_cast<int>(definition), option.strategy, other.strategy);
        });
        if (!is_dominated) return false;
      }
    }
  }
  return true;
}

std::vector<char> OptionTable::DominatedLayouts(const StrategySpace& space,
                                                const std::vector<OptionsByLayout>& priced) const {
  std::vector<char> dominated(layouts_.size(), 0);
  // A place has the number of its first layout. Places with the most samples at once come first,
  // because they dominate most others.
  std::vector<int> places;
  for (int layout = 0; layout < layout_count(); ++layout) {
    if (layouts_[layout].place == layout) places.push_back(layout);
  }
  const auto strategy = [&](int place) -> const Strategy& { return layouts_[place].strategy; };
  std::sort(places.begin(), places.end(), [&](int a, int b) {
    const auto key = [&](int place) {
      const Strategy& s = strategy(place);
      return std::make_tuple(s.tensor_parallel_degree, -s.data_parallel_degree, s.rank_order,
                             s.context_kind);
    };
    return key(a) < key(b);
  });
  // Drops dominated places one after the other, together with all layers of a plan in them. Moves
  // between the remaining places do not get longer by that: a move within a tensor-parallel degree
  // is a sum of terms of either side, and a move to another degree depends on one side only. That
  // does not hold if layouts are exchanged at once, where different strategies may hold the same
  // rows, so that a move between them is free.
  const bool exchanges_at_once =
      std::any_of(resharding_.begin(), resharding_.end(), [](const auto& moves) {
        return std::any_of(moves.begin(), moves.end(),
                           [](const auto& move) { return move.exchange > Seconds(); });
      });
  if (binds_neighbours_ || exchanges_at_once) return dominated;
  for (auto it = places.rbegin(); it != places.rend(); ++it) {
    const int worse = *it;
    for (const int better : places) {
      if (better == worse || dominated[better] ||
          strategy(better).tensor_parallel_degree != strategy(worse).tensor_parallel_degree) {
        continue;
      }
      if (!PlaceDominates(space, priced, better, worse)) continue;
      for (int layout = 0; layout < layout_count(); ++layout) {
        if (layouts_[layout].place == worse) dominated[layout] = 1;
      }
      break;
    }
  }
  return dominated;
}

void OptionTable::Keep(const std::vector<OptionsByLayout>& priced,
                       const std::vector<char>& dominated, const std::function<bool()>& must_stop) {
  std::vector<int> new_number(layouts_.size(), -1);
  std::vector<Layout> left;
  for (int layout = 0; layout < layout_count(); ++layout) {
    if (dominated[layout]) continue;
    new_number[layout] = static_cast<int>(left.size());
    left.push_back(layouts_[layout]);
    left.back().place = new_number[layouts_[layout].place];
  }
  for (size_t definition = 0; definition < priced.size(); ++definition) {
    if (priced[definition].empty()) continue;
    if (must_stop()) return;
    std::vector<GroupCosts::ReshardingTimes> moves;
    std::vector<Sent> messages;
    std::vector<StageOption>& options = options_[definition];
    for (int layout = 0; layout < layout_count(); ++layout) {
      if (dominated[layout]) continue;
      moves.push_back(resharding_[definition][layout]);
      messages.push_back(messages_[definition][layout]);
      for (const StageOption& option : priced[definition][layout]) {
        options.push_back(option);
        options.back().layout = new_number[layout];
      }
    }
    resharding_[definition] = std::move(moves);
    messages_[definition] = std::move(messages);
    std::sort(options.begin(), options.end(),
              [](const StageOption& a, const StageOption& b) { return a.strategy < b.strategy; });
  }
  layouts_ = std::move(left);
}

}  // namespace parplan
