#include "planner/search/stage/front_case.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/search/base/search_numbers.h"
#include "planner/search/stage/memory_price.h"
#include "planner/search/stage/suffix_costs.h"

namespace parplan {
namespace {

using Options = std::vector<TickStage::Option>;

// Returns [kind] the number of layers.
std::vector<double> LayerCounts(const TickStage& stage) {
  std::vector<double> counts(stage.options.size(), 0.0);
  for (const FrontRun& run : stage.runs) counts[run.kind] += run.layer_count;
  return counts;
}

// Computes the price and bound of every cut. Returns false if a cut excludes everything that fits.
bool Price(const std::vector<double>& layer_counts, FrontCase& front_case,
           std::vector<double>& bounds) {
  std::vector<FreeLayers> layers(layer_counts.size());
  for (const LinearCut& cut : front_case.stage->cuts) {
    PricedCut priced = {cut, 0.0};
    for (size_t kind = 0; kind < layers.size(); ++kind) {
      layers[kind].layer_count = layer_counts[kind];
      layers[kind].options.clear();
      for (const TickStage::Option& option : front_case.options[kind]) {
        layers[kind].options.push_back(
            {priced.Cost(option.cost), static_cast<double>(option.cost.bytes)});
      }
    }
    const MemoryPrice best = BestMemoryPrice(layers, static_cast<double>(front_case.room));
    if (best.bound > cut.limit) return false;
    priced.price = best.price;
    front_case.cuts.push_back(priced);
    bounds.push_back(best.bound);
  }
  return true;
}

double LeastCost(const PricedCut& cut, const Options& options) {
  double least = kInfinity;
  for (const TickStage::Option& option : options) least = std::min(least, cut.Cost(option.cost));
  return least;
}

// Removes options that no assignment within the cuts uses.
void DropExcludedOptions(const std::vector<double>& bounds, FrontCase& front_case) {
  for (Options& options : front_case.options) {
    for (size_t index = 0; index < bounds.size(); ++index) {
      const PricedCut& cut = front_case.cuts[index];
      const double limit = cut.cut.limit - bounds[index] + LeastCost(cut, options);
      std::erase_if(options, [&](const auto& option) { return cut.Cost(option.cost) > limit; });
    }
  }
}

// Sorts options by their cost under the tightest cut, cheapest first.
void Sort(const std::vector<double>& bounds, FrontCase& front_case) {
  size_t tightest = 0;
  double least_gap = kInfinity;
  for (size_t index = 0; index < bounds.size(); ++index) {
    const double gap = front_case.cuts[index].cut.limit / bounds[index];
    if (gap < least_gap) {
      least_gap = gap;
      tightest = index;
    }
  }
  const PricedCut& cut = front_case.cuts[tightest];
  for (Options& options : front_case.options) {
    // If two are equal except for rounding, the faster one comes first.
    const double unit = LeastCost(cut, options) * 1e-9;
    const auto rank = [&](const TickStage::Option& option) {
      return std::pair(unit > 0.0 ? std::floor(cut.Cost(option.cost) / unit + 0.5) : 0.0,
                       option.cost.forward + option.cost.backward + option.cost.sync);
    };
    std::stable_sort(options.begin(), options.end(),
                     [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
  }
}

void AddSuffixes(FrontCase& front_case) {
  const std::vector<FrontRun>& runs = front_case.stage->runs;
  const size_t cut_count = front_case.cuts.size();
  front_case.suffix.resize(runs.size() * cut_count);
  front_case.least_bytes_after.assign(runs.size(), 0);
  front_case.max_bytes_after.assign(runs.size(), 0);
  const auto room = static_cast<double>(front_case.room);
  for (size_t run = runs.size(); run-- > 0;) {
    if (run + 1 < runs.size()) {
      int64_t least = std::numeric_limits<int64_t>::max();
      int64_t largest = 0;
      for (const auto& option : front_case.options[runs[run + 1].kind]) {
        least = std::min(least, option.cost.bytes);
        largest = std::max(largest, option.cost.bytes);
      }
      front_case.least_bytes_after[run] =
          front_case.least_bytes_after[run + 1] + least * runs[run + 1].layer_count;
      front_case.max_bytes_after[run] =
          front_case.max_bytes_after[run + 1] + largest * runs[run + 1].layer_count;
    }
    for (size_t index = 0; index < cut_count; ++index) {
      const PricedCut& cut = front_case.cuts[index];
      SuffixCosts& suffix = front_case.suffix[run * cut_count + index];
      if (run + 1 == runs.size()) {
        suffix = {-cut.price * room, -room, {.add = cut.price}};
        continue;
      }
      suffix = front_case.suffix[(run + 1) * cut_count + index];
      const Options& options = front_case.options[runs[run + 1].kind];
      const auto cheapest = std::min_element(
          options.begin(), options.end(),
          [&cut](const auto& a, const auto& b) { return cut.Cost(a.cost) < cut.Cost(b.cost); });
      const double count = runs[run + 1].layer_count;
      suffix.cost += cut.Cost(cheapest->cost) * count;
      suffix.bytes += static_cast<double>(cheapest->cost.bytes) * count;
      for (const auto& option : options) {
        suffix.rates.Include(cut.Cost(option.cost) - cut.Cost(cheapest->cost),
                             static_cast<double>(option.cost.bytes - cheapest->cost.bytes));
      }
    }
  }
}

// Computes the room that remains with a transient of at least `least_transient`. Returns false if
// nothing fits.
bool MakeRoom(int64_t least_transient, FrontCase& front_case) {
  const TickStage& stage = *front_case.stage;
  front_case.least_transient = least_transient;
  front_case.max_budget = std::numeric_limits<int64_t>::max();
  for (const Options& options : front_case.options) {
    if (options.empty()) return false;
    int64_t transient = std::numeric_limits<int64_t>::max();
    int64_t budget = std::numeric_limits<int64_t>::min();
    for (const TickStage::Option& option : options) {
      transient = std::min(transient, option.transient);
      budget = std::max(budget, option.budget);
    }
    front_case.least_transient = std::max(front_case.least_transient, transient);
    front_case.max_budget = std::min(front_case.max_budget, budget);
  }
  front_case.room = front_case.max_budget - front_case.least_transient;
  front_case.has_output = !stage.output_bytes.empty();
  if (front_case.has_output) {
    front_case.room -= *std::min_element(stage.output_bytes.begin(), stage.output_bytes.end());
  }
  return front_case.room >= 0;
}

// Upper bounds over all assignments of the memory needed and of overheads.
struct MaxNeeded {
  int64_t bytes = 0;
  int64_t step_bytes = 0;
  int64_t transient = 0;
  int64_t least_budget = std::numeric_limits<int64_t>::max();
  int64_t output_spread = 0;
};

MaxNeeded MaxNeededBy(const FrontCase& front_case, const std::vector<double>& layer_counts) {
  MaxNeeded needed;
  for (size_t kind = 0; kind < front_case.options.size(); ++kind) {
    int64_t bytes = 0;
    int64_t step_bytes = 0;
    for (const TickStage::Option& option : front_case.options[kind]) {
      bytes = std::max(bytes, option.cost.bytes);
      step_bytes = std::max(step_bytes, option.cost.step_bytes_with_bucket);
      needed.transient = std::max(needed.transient, option.transient);
      needed.least_budget = std::min(needed.least_budget, option.budget);
    }
    needed.bytes += bytes * static_cast<int64_t>(layer_counts[kind]);
    needed.step_bytes += step_bytes * static_cast<int64_t>(layer_counts[kind]);
  }
  if (front_case.has_output) {
    const auto [least, largest] = std::minmax_element(front_case.stage->output_bytes.begin(),
                                                      front_case.stage->output_bytes.end());
    needed.output_spread = *largest - *least;
  }
  return needed;
}

bool NowhereWorse(const TickStage::Option& a, const TickStage::Option& b) {
  return a.layout == b.layout && a.cost.IsNowhereSlower(b.cost) && a.cost.bytes <= b.cost.bytes &&
         a.cost.step_bytes <= b.cost.step_bytes &&
         a.cost.step_bytes_with_bucket <= b.cost.step_bytes_with_bucket &&
         a.transient <= b.transient && a.budget >= b.budget;
}

// Removes dominated options; among equal ones of a layout, all but the first.
void DropDominated(Options& options) {
  // Options of one layout one after the other, and each behind all that dominate it. Dominance is
  // transitive, so each is compared with those that are kept.
  const auto rank = [&options](int index) {
    const TickStage::Option& option = options[index];
    const FrontSum& cost = option.cost;
    return std::tuple(option.layout, cost.forward + cost.backward + cost.sync, cost.bytes,
                      cost.step_bytes, cost.step_bytes_with_bucket, option.transient,
                      -option.budget, index);
  };
  std::vector<int> order(options.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&rank](int a, int b) { return rank(a) < rank(b); });
  std::vector<int> kept;
  size_t first_of_layout = 0;
  for (const int index : order) {
    const TickStage::Option& option = options[index];
    if (!kept.empty() && options[kept.back()].layout != option.layout) {
      first_of_layout = kept.size();
    }
    if (std::none_of(kept.begin() + static_cast<std::ptrdiff_t>(first_of_layout), kept.end(),
                     [&](int other) { return NowhereWorse(options[other], option); })) {
      kept.push_back(index);
    }
  }
  std::sort(kept.begin(), kept.end());
  Options remaining;
  remaining.reserve(kept.size());
  for (const int index : kept) remaining.push_back(options[index]);
  options = std::move(remaining);
}

// Drops the memory constraints that cannot bind.
void ForgetMemory(const std::vector<double>& layer_counts, FrontCase& front_case) {
  const MaxNeeded needed = MaxNeededBy(front_case, layer_counts);
  if (front_case.has_step && needed.step_bytes <= needed.least_budget) front_case.has_step = false;
  for (Options& options : front_case.options) {
    if (front_case.has_step) break;
    for (TickStage::Option& option : options) {
      option.cost.step_bytes = option.cost.step_bytes_with_bucket = 0;
    }
  }
  const int64_t overhead =
      needed.transient - front_case.least_transient +
      (front_case.max_budget - std::min(front_case.max_budget, needed.least_budget)) +
      needed.output_spread;
  front_case.max_overhead = overhead;
  if (front_case.has_step || needed.bytes + overhead > front_case.room) return;
  front_case.least_transient = front_case.max_budget = front_case.room = 0;
  front_case.max_overhead = 0;
  front_case.has_output = false;
  front_case.memory_fits = true;
  for (PricedCut& cut : front_case.cuts) cut.price = 0.0;
  for (Options& options : front_case.options) {
    for (TickStage::Option& option : options) {
      option.cost.bytes = option.transient = option.budget = 0;
    }
  }
}

// Returns the case of assignments whose largest transient is between the two. Sets `has_smaller` if
// assignments with smaller transients are among them.
std::optional<FrontCase> MakeCase(const TickStage& stage, const std::vector<double>& layer_counts,
                                  int64_t least_transient, int64_t max_transient,
                                  bool& has_smaller) {
  FrontCase front_case;
  front_case.stage = &stage;
  front_case.options = stage.options;
  front_case.has_step = stage.has_step;
  for (Options& options : front_case.options) {
    std::erase_if(options, [=](const auto& option) { return option.transient > max_transient; });
  }
  if (!MakeRoom(least_transient, front_case)) return std::nullopt;
  std::vector<double> bounds;
  if (!Price(layer_counts, front_case, bounds)) return std::nullopt;
  DropExcludedOptions(bounds, front_case);
  // The remaining options may need more, or all belong to a case with smaller transients.
  if (!MakeRoom(least_transient, front_case)) return std::nullopt;
  bool is_reached = false;
  for (const Options& options : front_case.options) {
    for (const TickStage::Option& option : options) {
      is_reached |= option.transient >= least_transient;
    }
  }
  if (!is_reached) return std::nullopt;
  // With a price above 0, options may have been removed that are good if there is more room.
  const bool has_price = std::any_of(front_case.cuts.begin(), front_case.cuts.end(),
                                     [](const PricedCut& cut) { return cut.price > 0.0; });
  ForgetMemory(layer_counts, front_case);
  has_smaller = front_case.memory_fits && !has_price;
  for (Options& options : front_case.options) DropDominated(options);
  Sort(bounds, front_case);
  AddSuffixes(front_case);
  AddSuffixCostsByLayout(front_case);
  return front_case;
}

}  // namespace

std::vector<FrontCase> CasesOf(const TickStage& stage) {
  const std::vector<double> layer_counts = LayerCounts(stage);
  std::vector<int64_t> transients;
  int64_t budget = 0;
  for (const Options& options : stage.options) {
    for (const TickStage::Option& option : options) {
      transients.push_back(option.transient);
      budget = std::max(budget, option.budget);
    }
  }
  std::vector<FrontCase> cases;
  for (const auto& [least, largest] : TransientRanges(std::move(transients), budget)) {
    bool has_smaller = false;
    std::optional<FrontCase> front_case =
        MakeCase(stage, layer_counts, least, largest, has_smaller);
    if (!front_case) continue;
    cases.push_back(*std::move(front_case));
    if (has_smaller) break;
  }
  return cases;
}

}  // namespace parplan
