// Passes and memory prices of each stage (`PricedPipeline` of priced_pipeline.h).

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/planners/exact/pipeline/price_counts.h"
#include "planner/planners/exact/pipeline/priced_pipeline.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {

void PricedPipeline::SetPasses(const std::vector<LayerRate>& rates) {
  PathCounts counts = BalancePaths(setting_.recurrence(), rates);
  passes_ = std::move(counts.passes);
  messages_ = 0.0;
  for (int stage = 0; stage < setting_.depth(); ++stage) {
    messages_ += 2.0 * setting_.stage(stage).least_send * counts.messages[stage];
  }
}

// Sets passes so that a layer weighs the same in all stages: no partition gains by moving layers.
// Compares the costs of the same layers on both sides of a boundary.
void PricedPipeline::Balance(const std::vector<int>& boundaries) {
  const auto sum = [&](const std::vector<double>& costs, int first_stage) {
    double sum = 0.0;
    for (int layer = boundaries[first_stage]; layer < boundaries[first_stage + 2];) {
      const int end = std::min(setting_.EndOfRun(layer), boundaries[first_stage + 2]);
      sum += costs[setting_.definition_of(layer)] * (end - layer);
      layer = end;
    }
    return sum;
  };
  std::vector<LayerRate> rates(setting_.depth());
  for (int stage = 0; stage + 1 < setting_.depth(); ++stage) {
    const double before = sum(minima_[stage].passes, stage) / passes_[stage];
    const double later = sum(minima_[stage + 1].passes, stage) / passes_[stage + 1];
    rates[stage + 1].per_pass = rates[stage].per_pass;
    if (!(before > 0.0 && later > 0.0)) continue;
    rates[stage + 1].per_pass *= later / before;
    if (stage > 0) continue;
    const double priced = sum(minima_[stage].priced, stage) / passes_[stage];
    rates[stage].besides = std::max(0.0, priced - before) * passes_[stage] / before;
  }
  const std::vector<double> before = passes_;
  SetPasses(rates);
  for (int stage = 0; stage < setting_.depth(); ++stage) {
    prices_[stage] *= passes_[stage] / before[stage];
  }
  for (int stage = 0; stage < setting_.depth(); ++stage) SetMinima(stage);
}

void PricedPipeline::SetMinima(int stage) {
  Minima& minima = minima_[stage];
  const auto in_flight = static_cast<double>(setting_.stage(stage).in_flight);
  const double price = prices_[stage];
  if (stage > 1 && setting_.stage(stage - 1).in_flight == setting_.stage(stage).in_flight &&
      prices_[stage - 1] == price && passes_[stage - 1] == passes_[stage]) {
    minima = minima_[stage - 1];
    return;
  }
  minima.priced.resize(definition_count_);
  minima.passes.resize(definition_count_);
  minima.forward_backward.resize(definition_count_);
  minima.memories.resize(definition_count_);
  for (const int definition : definitions_) {
    double priced = kInfinity;
    double passes = kInfinity;
    double forward_backward = kInfinity;
    double least = kInfinity;
    for (const LayerItem& item : menus_.items(definition)) {
      const double memory = item.states + in_flight * item.kept;
      // The first stage ends all paths, and it synchronises then.
      const double cost = passes_[stage] * item.forward_backward + price * memory;
      priced = std::min(priced, cost + (stage == 0 ? item.sync : 0.0));
      passes = std::min(passes, cost);
      forward_backward = std::min(forward_backward, item.forward_backward);
      least = std::min(least, memory);
    }
    minima.priced[definition] = priced;
    minima.passes[definition] = passes;
    minima.forward_backward[definition] = forward_backward;
    minima.memories[definition] = least;
  }
}

// Returns the price at which the bound of the stage is highest.
double PricedPipeline::BestPrice(int stage, int first_layer, int end_layer) const {
  struct Line {
    double time = 0.0;
    double memory = 0.0;
  };
  const auto in_flight = static_cast<double>(setting_.stage(stage).in_flight);
  std::vector<DefinitionRun> runs = setting_.RunsOf(first_layer, end_layer);
  const auto cheapest = [&](double price, bool by_memory) {
    Line line;
    for (const DefinitionRun& run : runs) {
      double best = kInfinity;
      Line chosen;
      for (const LayerItem& item : menus_.items(run.definition_index)) {
        const double memory = item.states + in_flight * item.kept;
        const double time = passes_[stage] * item.forward_backward + (stage == 0 ? item.sync : 0.0);
        const double cost = by_memory ? memory : time + price * memory;
        if (cost >= best) continue;
        best = cost;
        chosen = {time, memory};
      }
      line.time += chosen.time * run.layer_count;
      line.memory += chosen.memory * run.layer_count;
    }
    return line;
  };
  Line large = cheapest(0.0, false);
  if (large.memory <= room_) return 0.0;
  Line small = cheapest(0.0, true);
  if (small.memory >= large.memory) return 0.0;
  double price = 0.0;
  for (int step = 0; step < kPriceSteps; ++step) {
    const double next = (small.time - large.time) / (large.memory - small.memory);
    if (!(next > 0.0) || next == price) break;
    price = next;
    const Line line = cheapest(price, false);
    if (line.memory == small.memory || line.memory == large.memory) break;
    (line.memory > room_ ? large : small) = line;
  }
  return price;
}

void PricedPipeline::SetPrices(const std::vector<int>& boundaries) {
  const int depth = setting_.depth();
  // The other stages are interpolated.
  const int stride = std::max(1, depth / kPricedStages);
  int last = -1;
  for (int stage = 0; stage < depth; ++stage) {
    const bool is_priced = stage < 2 || stage % stride == 0 || stage + 2 >= depth;
    if (!is_priced) continue;
    prices_[stage] = BestPrice(stage, boundaries[stage], boundaries[stage + 1]);
    for (int between = last + 1; between < stage; ++between) {
      const double share = static_cast<double>(between - last) / (stage - last);
      prices_[between] = prices_[last] + share * (prices_[stage] - prices_[last]);
    }
    last = stage;
  }
  for (int stage = 0; stage < depth; ++stage) SetMinima(stage);
}

std::vector<int> PricedPipeline::CheapestLayouts(const OptionMask& mask, int limit) const {
  const int layout_count = setting_.table().layout_count();
  std::vector<std::pair<double, int>> costs;
  for (int layout = 0; layout < layout_count; ++layout) costs.emplace_back(0.0, layout);
  std::vector<double> layers(definition_count_);
  for (const ModelLayerRun& run : setting_.problem().model().layer_runs()) {
    layers[run.definition_index] += run.layer_count;
  }
  // A stage in the middle represents all.
  const int stage = setting_.depth() / 2;
  const auto in_flight = static_cast<double>(setting_.stage(stage).in_flight);
  std::vector<double> least;
  for (const int definition : definitions_) {
    least.assign(layout_count, kInfinity);
    const std::vector<StageOption>& options = setting_.table().options(definition);
    for (size_t k = 0; k < options.size(); ++k) {
      if (!mask.empty() && !mask[definition][k]) continue;
      const LayerItem item = ItemOf(options[k], static_cast<int>(k));
      const double cost = passes_[stage] * item.forward_backward +
                          prices_[stage] * (item.states + in_flight * item.kept);
      least[options[k].layout] = std::min(least[options[k].layout], cost);
    }
    // A definition without options of the layout may use any.
    const double any = *std::min_element(least.begin(), least.end());
    for (int layout = 0; layout < layout_count; ++layout) {
      costs[layout].first += layers[definition] * (least[layout] < kInfinity ? least[layout] : any);
    }
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> layouts;
  for (const auto& [cost, layout] : costs) layouts.push_back(layout);
  if (static_cast<int>(layouts.size()) > limit) layouts.resize(limit);
  return layouts;
}

}  // namespace parplan
