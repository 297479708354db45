#include "planner/planners/exact/pipeline/stage_mix.h"

#include <algorithm>
#include <map>
#include <vector>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Prices tried; the loop usually ends earlier, at a vertex of the lower hull.
constexpr int kMixPriceSteps = 24;

// The options of a definition, and the number of its layers.
struct Kind {
  struct Item {
    int option = 0;
    double time = 0.0;
    double memory = 0.0;
  };
  int layer_count = 0;
  std::vector<Item> items;
  // The best item that fits, with those of the other kinds, and the best one that does not, at the
  // last price.
  const Item* small = nullptr;
  const Item* fast = nullptr;
};

using Kinds = std::map<int, Kind>;

struct Sum {
  double time = 0.0;
  double memory = 0.0;
};

// Sets `place` of each kind to its cheapest item at `price`.
Sum Choose(double price, const Kind::Item* Kind::*place, Kinds& kinds) {
  Sum sum;
  for (auto& [definition, kind] : kinds) {
    const Kind::Item* best = nullptr;
    double least = kInfinity;
    for (const Kind::Item& item : kind.items) {
      const double cost = item.time + price * item.memory;
      if (best != nullptr && cost >= least) continue;
      best = &item;
      least = cost;
    }
    kind.*place = best;
    sum.time += best->time * kind.layer_count;
    sum.memory += best->memory * kind.layer_count;
  }
  return sum;
}

// Sets `small` and `fast` of all kinds; `room` is available for what is kept.
void FindPrice(double room, Kinds& kinds) {
  Sum fast = Choose(0.0, &Kind::fast, kinds);
  if (fast.memory <= room) {
    for (auto& [definition, kind] : kinds) kind.small = kind.fast;
    return;
  }
  Sum small;
  for (auto& [definition, kind] : kinds) {
    kind.small = &*std::min_element(
        kind.items.begin(), kind.items.end(),
        [](const Kind::Item& a, const Kind::Item& b) { return a.memory < b.memory; });
    small.time += kind.small->time * kind.layer_count;
    small.memory += kind.small->memory * kind.layer_count;
  }
  for (int step = 0; step < kMixPriceSteps && small.memory < fast.memory; ++step) {
    const double price = (small.time - fast.time) / (fast.memory - small.memory);
    if (!(price > 0.0)) return;
    Kinds tried = kinds;
    const Sum sum = Choose(price, &Kind::fast, tried);
    if (sum.memory == small.memory || sum.memory == fast.memory) return;
    for (auto& [definition, kind] : kinds) {
      const int index = static_cast<int>(tried[definition].fast - tried[definition].items.data());
      (sum.memory > room ? kind.fast : kind.small) = &kind.items[index];
    }
    (sum.memory > room ? fast : small) = sum;
  }
}

// Returns the budget less transients, given the communicators of all chosen options.
double RoomOf(const PipelineSetting& setting, int stage, const Kinds& kinds, bool with_fast) {
  double transient = 0.0;
  int communicators = 0;
  for (const auto& [definition, kind] : kinds) {
    for (const Kind::Item* item : {kind.small, with_fast ? kind.fast : kind.small}) {
      const StageOption& option = setting.table().options(definition)[item->option];
      transient = std::max(transient, option.transient.as_double());
      communicators = std::max(communicators, option.communicator_count);
    }
  }
  const int count = communicators + setting.stage(stage).extra_communicator_count;
  return setting.budget()[count].as_double() - transient;
}

}  // namespace

void SumTimes(const OptionTable& table, absl::Span<const DefinitionRun> runs, StageChoice& choice) {
  choice.forward = choice.backward = choice.sync = Seconds();
  size_t layer = 0;
  int before = -1;
  for (const DefinitionRun& run : runs) {
    const std::vector<StageOption>& options = table.options(run.definition_index);
    for (int k = 0; k < run.layer_count;) {
      const int index = choice.options[layer];
      int count = 1;
      while (k + count < run.layer_count && choice.options[layer + count] == index) ++count;
      const StageOption& option = options[index];
      choice.forward += option.forward * count;
      choice.backward += option.backward * count;
      choice.sync += option.sync * count;
      if (before >= 0) {
        const Seconds move = table.Transition(run.definition_index, before, option.layout);
        choice.forward += move * 0.5;
        choice.backward += move * 0.5;
      } else {
        choice.first_layout = option.layout;
      }
      before = choice.last_layout = option.layout;
      layer += count;
      k += count;
    }
  }
}

std::optional<StageChoice> MixStage(const PipelineSetting& setting, const OptionMask& allowed,
                                    int stage, int first_layer, int end_layer) {
  const std::vector<DefinitionRun> runs = setting.RunsOf(first_layer, end_layer);
  const double in_flight = static_cast<double>(setting.stage(stage).in_flight);
  const double count = setting.recurrence().micro_batch_count();
  Kinds kinds;
  for (const DefinitionRun& run : runs) {
    const auto [found, is_new] = kinds.try_emplace(run.definition_index);
    found->second.layer_count += run.layer_count;
    if (!is_new) continue;
    const std::vector<StageOption>& options = setting.table().options(run.definition_index);
    for (size_t k = 0; k < options.size(); ++k) {
      if (!allowed.empty() && !allowed[run.definition_index][k]) continue;
      const StageOption& option = options[k];
      found->second.items.push_back(
          {static_cast<int>(k),
           (option.forward + option.backward).value() + option.sync.value() / count,
           option.states.as_double() + option.kept.as_double() * in_flight});
    }
    if (found->second.items.empty()) return std::nullopt;
  }
  // The transient of the chosen options is known only afterwards, so they are chosen again with it.
  double room = setting.largest_budget().as_double();
  for (int round = 0; round < 3; ++round) {
    FindPrice(room, kinds);
    room = std::min(room, RoomOf(setting, stage, kinds, /*with_fast=*/true));
  }
  double used = 0.0;
  for (const auto& [definition, kind] : kinds) used += kind.small->memory * kind.layer_count;
  if (setting.stage(stage).keeps_outputs) {
    Bytes largest;
    for (int layout = 0; layout < setting.table().layout_count(); ++layout) {
      largest = std::max(largest, setting.table().Message(runs.back().definition_index, layout));
    }
    used += largest.as_double() * in_flight;
  }
  const bool mixes = used <= room;
  if (!mixes && used > RoomOf(setting, stage, kinds, /*with_fast=*/false)) return std::nullopt;
  StageChoice choice;
  for (const DefinitionRun& run : runs) {
    const Kind& kind = kinds[run.definition_index];
    const double more = kind.fast->memory - kind.small->memory;
    for (int k = 0; k < run.layer_count; ++k) {
      const bool is_fast = mixes && used + more <= room;
      if (is_fast) used += more;
      choice.options.push_back(is_fast ? kind.fast->option : kind.small->option);
    }
  }
  SumTimes(setting.table(), runs, choice);
  if (!(choice.forward + choice.backward).is_finite()) return std::nullopt;
  return choice;
}

}  // namespace parplan
