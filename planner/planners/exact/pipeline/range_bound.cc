#include "planner/planners/exact/pipeline/range_bound.h"

#include <algorithm>

#include "planner/planners/exact/pipeline/price_counts.h"
#include "planner/search/base/search_numbers.h"
#include "planner/search/space/allowed_options.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kRangeRounding = 1.0 - 1e-12;

}  // namespace

RangeBounds::RangeBounds(const PipelineSetting& setting, const OptionMask& allowed,
                         absl::Span<const int> boundaries, SearchMeter& meter)
    : setting_(setting),
      meter_(meter),
      allowed_(setting.problem().model().layer_definitions().size()),
      budget_(setting.largest_budget().as_double()),
      definition_count_(static_cast<int>(setting.problem().model().layer_definitions().size())) {
  for (int definition = 0; definition < definition_count_; ++definition) {
    const auto option_count = static_cast<int>(setting.table().options(definition).size());
    if (allowed.empty()) {
      for (int k = 0; k < option_count; ++k) allowed_[definition].push_back(k);
    } else {
      ForEachAllowed(allowed[definition], [&](int k) { allowed_[definition].push_back(k); });
    }
  }
  for (int i = 0; i < setting.depth(); ++i) {
    const int64_t in_flight = setting.stage(i).in_flight;
    if (flights_.empty() || flights_.back().in_flight != in_flight) {
      flights_.push_back({.in_flight = in_flight});
    }
    flight_of_stage_.push_back(static_cast<int>(flights_.size()) - 1);
  }
  SetPrices(boundaries);
  index_of_minima_.assign(flights_.size() * definition_count_, -1);
}

std::vector<RangeBounds::Item> RangeBounds::ItemsOf(int definition, int64_t in_flight) const {
  const std::vector<StageOption>& options = setting_.table().options(definition);
  const double count = setting_.recurrence().micro_batch_count();
  // GPipe has no such chain; the round trip replaces it.
  const double forward_passes =
      setting_.recurrence().is_gpipe() ? 1.0 : count - static_cast<double>(in_flight) + 1.0;
  const double backward_passes = setting_.recurrence().is_gpipe() ? 1.0 : count;
  std::vector<Item> items;
  items.reserve(allowed_[definition].size());
  // Every option is looked at under all weights and prices.
  meter_.Work(static_cast<int64_t>(allowed_[definition].size()) * kSumCount);
  for (const int k : allowed_[definition]) {
    const StageOption& option = options[k];
    const double forward = option.forward.value();
    const double backward = option.backward.value();
    const double sync = option.sync.value();
    items.push_back({.weighted = {forward + backward, forward + backward + sync,
                                  count * (forward + backward) + sync,
                                  forward_passes * forward + backward_passes * backward},
                     .forward = forward,
                     .memory = (option.states + option.kept * in_flight).as_double(),
                     .transient = option.transient.as_double()});
  }
  return items;
}

// The bound of a stage, the least of time + price (memory - budget) over its assignments, is
// concave in the price. Between an assignment that needs too much and one that fits, the price at
// which both are equal is tried next.
double RangeBounds::BestPrice(absl::Span<const DefinitionRun> runs, int weight,
                              absl::Span<const std::vector<Item>> items) const {
  struct Line {
    double time = 0.0;
    double memory = 0.0;
  };
  const auto cheapest = [&](double price) {
    Line line;
    for (const DefinitionRun& run : runs) {
      const Item* best = nullptr;
      double least = kInfinity;
      for (const Item& item : items[run.definition_index]) {
        const double cost = item.weighted[weight] + price * item.memory;
        if (best == nullptr || cost < least) {
          best = &item;
          least = cost;
        }
      }
      if (best == nullptr) return Line{};
      line.time += best->weighted[weight] * run.layer_count;
      line.memory += best->memory * run.layer_count;
    }
    return line;
  };
  double transient = 0.0;
  Line small;
  for (const DefinitionRun& run : runs) {
    const Item* least = nullptr;
    double least_transient = kInfinity;
    for (const Item& item : items[run.definition_index]) {
      if (least == nullptr || item.memory < least->memory) least = &item;
      least_transient = std::min(least_transient, item.transient);
    }
    if (least == nullptr) return 0.0;
    transient = std::max(transient, least_transient);
    small.time += least->weighted[weight] * run.layer_count;
    small.memory += least->memory * run.layer_count;
  }
  const double room = budget_ - transient;
  Line large = cheapest(0.0);
  if (large.memory <= room || small.memory >= large.memory) return 0.0;
  double price = 0.0;
  for (int step = 0; step < kPriceSteps; ++step) {
    const double next = (small.time - large.time) / (large.memory - small.memory);
    if (!(next > 0.0) || next == price) break;
    price = next;
    const Line line = cheapest(price);
    if (line.memory == small.memory || line.memory == large.memory) break;
    (line.memory > room ? large : small) = line;
  }
  return price;
}

void RangeBounds::SetPrices(absl::Span<const int> boundaries) {
  const int depth = setting_.depth();
  // The other stages use the prices of the one before.
  const int stride = std::max(1, (depth + kPricedStages - 1) / kPricedStages);
  for (int begin = 0; begin < depth;) {
    // Stages with the same number of micro-batches in flight.
    const int flight = flight_of_stage_[begin];
    int end = begin + 1;
    while (end < depth && flight_of_stage_[end] == flight) ++end;
    Flight& mine = flights_[flight];
    const bool is_priced = begin % stride == 0 || end == depth || flight == 0;
    if (!is_priced) {
      mine.prices = flights_[flight - 1].prices;
      begin = end;
      continue;
    }
    // The first, a middle and the last of these stages; for a single one also a layer more and a
    // layer less.
    struct Range {
      int first;
      int end;
    };
    std::vector<Range> ranges;
    const auto add = [&ranges](int first, int last) {
      if (last > first) ranges.push_back({first, last});
    };
    add(boundaries[begin], boundaries[begin + 1]);
    if (end - begin > 1) {
      const int middle = (begin + end) / 2;
      add(boundaries[middle], boundaries[middle + 1]);
      add(boundaries[end - 1], boundaries[end]);
    } else if (depth > 1) {
      add(boundaries[begin], boundaries[begin + 1] - 1);
      add(boundaries[begin], std::min(boundaries[begin + 1] + 1, setting_.layer_count()));
    }
    std::vector<std::vector<Item>> items(definition_count_);
    for (int k = 0; k < static_cast<int>(ranges.size()) && k + 1 < kPriceCount; ++k) {
      const std::vector<DefinitionRun> runs = setting_.RunsOf(ranges[k].first, ranges[k].end);
      for (const DefinitionRun& run : runs) {
        if (items[run.definition_index].empty()) {
          items[run.definition_index] = ItemsOf(run.definition_index, mine.in_flight);
        }
      }
      for (int weight = 0; weight < kWeightCount; ++weight) {
        mine.prices[weight][k + 1] = BestPrice(runs, weight, items);
      }
    }
    begin = end;
  }
}

int32_t RangeBounds::FindMinima(int flight, int definition) {
  Sums& least = minima_.emplace_back();
  least.relaxed.fill(kInfinity);
  least.forward = least.memory = least.transient = kInfinity;
  const auto& prices = flights_[flight].prices;
  for (const Item& item : ItemsOf(definition, flights_[flight].in_flight)) {
    // An option that never fits by itself is in no plan.
    if (item.memory + item.transient > budget_) continue;
    for (int weight = 0; weight < kWeightCount; ++weight) {
      for (int price = 0; price < kPriceCount; ++price) {
        double& value = least.relaxed[weight * kPriceCount + price];
        value = std::min(value, item.weighted[weight] + prices[weight][price] * item.memory);
      }
    }
    least.forward = std::min(least.forward, item.forward);
    least.memory = std::min(least.memory, item.memory);
    least.transient = std::min(least.transient, item.transient);
  }
  return static_cast<int32_t>(minima_.size()) - 1;
}

RangeBounds::Sums RangeBounds::SumsOf(int stage, int first_layer, int end_layer) {
  Sums sums;
  for (int layer = first_layer; layer < end_layer;) {
    const int end = std::min(setting_.EndOfRun(layer), end_layer);
    Add(stage, setting_.definition_of(layer), end - layer, sums);
    layer = end;
  }
  return sums;
}

RangeTimes RangeBounds::Times(int stage, const Sums& sums) const {
  const Flight& flight = flights_[flight_of_stage_[stage]];
  const double room = budget_ - sums.transient;
  const auto highest = [&](int weight) {
    double value = 0.0;
    for (int price = 0; price < kPriceCount; ++price) {
      value = std::max(
          value, sums.relaxed[weight * kPriceCount + price] - flight.prices[weight][price] * room);
    }
    return value * kRangeRounding;
  };
  return {.forward_backward = highest(0),
          .forward_backward_sync = highest(1),
          .work = highest(2),
          .uneven = highest(3),
          .forward = sums.forward * kRangeRounding};
}

}  // namespace parplan
