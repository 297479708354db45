#include "planner/search/front_case.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/search/memory_price.h"

namespace parplan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Options = std::vector<TickStage::Option>;

// Layers of each kind.
std::vector<double> LayerCounts(const TickStage& stage) {
  std::vector<double> counts(stage.options.size(), 0.0);
  for (const FrontRun& run : stage.runs) counts[run.kind] += run.layer_count;
  return counts;
}

// Distinct values of a field, ascending.
template <typename Field>
std::vector<int64_t> ValuesOf(const TickStage& stage, Field field) {
  std::vector<int64_t> values;
  for (const Options& options : stage.options) {
    for (const TickStage::Option& option : options) values.push_back(option.*field);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// The price and bound of every cut. False when a cut excludes all that fits.
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
    if (best.bound > cut.most) return false;
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

// Drops options that no assignment within the cuts has.
void DropHopeless(const std::vector<double>& bounds, FrontCase& front_case) {
  for (Options& options : front_case.options) {
    for (size_t index = 0; index < bounds.size(); ++index) {
      const PricedCut& cut = front_case.cuts[index];
      const double most = cut.cut.most - bounds[index] + LeastCost(cut, options);
      std::erase_if(options, [&](const auto& option) { return cut.Cost(option.cost) > most; });
    }
  }
}

// The cheapest of the tightest cut first.
void Sort(const std::vector<double>& bounds, FrontCase& front_case) {
  size_t tightest = 0;
  double least_gap = kInfinity;
  for (size_t index = 0; index < bounds.size(); ++index) {
    const double gap = front_case.cuts[index].cut.most / bounds[index];
    if (gap < least_gap) {
      least_gap = gap;
      tightest = index;
    }
  }
  const PricedCut& cut = front_case.cuts[tightest];
  for (Options& options : front_case.options) {
    std::stable_sort(options.begin(), options.end(), [&cut](const auto& a, const auto& b) {
      return cut.Cost(a.cost) < cut.Cost(b.cost);
    });
  }
}

void AddBehind(FrontCase& front_case) {
  const std::vector<FrontRun>& runs = front_case.stage->runs;
  const size_t cut_count = front_case.cuts.size();
  front_case.behind.resize(runs.size() * cut_count);
  front_case.least_bytes_behind.assign(runs.size(), 0);
  const auto room = static_cast<double>(front_case.room);
  for (size_t run = runs.size(); run-- > 0;) {
    if (run + 1 < runs.size()) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (const auto& option : front_case.options[runs[run + 1].kind]) {
        least = std::min(least, option.cost.bytes);
      }
      front_case.least_bytes_behind[run] =
          front_case.least_bytes_behind[run + 1] + least * runs[run + 1].layer_count;
    }
    for (size_t index = 0; index < cut_count; ++index) {
      const PricedCut& cut = front_case.cuts[index];
      Behind& behind = front_case.behind[run * cut_count + index];
      if (run + 1 == runs.size()) {
        behind = {-cut.price * room, -room, {.add = cut.price}};
        continue;
      }
      behind = front_case.behind[(run + 1) * cut_count + index];
      const Options& options = front_case.options[runs[run + 1].kind];
      const auto cheapest = std::min_element(
          options.begin(), options.end(),
          [&cut](const auto& a, const auto& b) { return cut.Cost(a.cost) < cut.Cost(b.cost); });
      const double count = runs[run + 1].layer_count;
      behind.cost += cut.Cost(cheapest->cost) * count;
      behind.bytes += static_cast<double>(cheapest->cost.bytes) * count;
      for (const auto& option : options) {
        behind.rates.Include(cut.Cost(option.cost) - cut.Cost(cheapest->cost),
                             static_cast<double>(option.cost.bytes - cheapest->cost.bytes));
      }
    }
  }
}

std::optional<FrontCase> MakeCase(const TickStage& stage, const std::vector<double>& layer_counts,
                                  int64_t transient, int64_t budget) {
  FrontCase front_case;
  front_case.stage = &stage;
  front_case.room = budget - transient;
  front_case.budget = budget;
  if (!stage.output_bytes.empty()) {
    front_case.room -= *std::min_element(stage.output_bytes.begin(), stage.output_bytes.end());
  }
  if (front_case.room < 0) return std::nullopt;
  for (const Options& options : stage.options) {
    Options& allowed = front_case.options.emplace_back();
    for (const TickStage::Option& option : options) {
      if (option.transient <= transient && option.budget >= budget) allowed.push_back(option);
    }
    if (allowed.empty()) return std::nullopt;
  }
  std::vector<double> bounds;
  if (!Price(layer_counts, front_case, bounds)) return std::nullopt;
  DropHopeless(bounds, front_case);
  // Without an option that needs the cap, a lower cap allows the same and leaves more.
  bool has_transient = false;
  bool has_budget = false;
  for (const Options& options : front_case.options) {
    if (options.empty()) return std::nullopt;
    for (const TickStage::Option& option : options) {
      has_transient |= option.transient == transient;
      has_budget |= option.budget == budget;
    }
  }
  if (!has_transient || !has_budget) return std::nullopt;
  Sort(bounds, front_case);
  AddBehind(front_case);
  return front_case;
}

}  // namespace

TickStage ToTicks(const FrontStage& stage, absl::Span<const LinearCut> cuts) {
  // The longest sum any assignment can come to.
  std::vector<double> longest(stage.kinds.size(), 0.0);
  for (size_t kind = 0; kind < stage.kinds.size(); ++kind) {
    for (const FrontOption& option : stage.kinds[kind].options) {
      longest[kind] =
          std::max(longest[kind], (option.forward + option.backward + option.sync).value());
    }
    double move = 0.0;
    for (Seconds transition : stage.kinds[kind].transitions) {
      if (transition.is_finite()) move = std::max(move, transition.value());
    }
    longest[kind] += move;
  }
  double whole = 0.0;
  double layer_count = 0.0;
  for (const FrontRun& run : stage.runs) {
    whole += longest[run.kind] * run.layer_count;
    layer_count += run.layer_count;
  }
  const TickScale scale(Seconds::Of(whole));

  TickStage ticks;
  ticks.layout_count = stage.layout_count;
  ticks.runs = stage.runs;
  ticks.has_step = stage.has_step;
  ticks.gradient_bucket = stage.gradient_bucket.count();
  for (Bytes bytes : stage.output_held) ticks.output_bytes.push_back(bytes.count());
  for (const FrontKind& kind : stage.kinds) {
    Options& options = ticks.options.emplace_back();
    for (const FrontOption& option : kind.options) {
      options.push_back({.option = option.option,
                         .layout = option.layout,
                         .cost = {scale.ToTicks(option.forward), scale.ToTicks(option.backward),
                                  scale.ToTicks(option.sync), option.held.count(),
                                  option.step_held.count(), option.step_held_with_bucket.count()},
                         .transient = option.transient.count(),
                         .budget = option.budget.count()});
    }
    std::vector<int64_t>& moves = ticks.half_moves.emplace_back();
    for (Seconds transition : kind.transitions) {
      moves.push_back(transition.is_finite() ? scale.ToTicks(transition * 0.5) : TickStage::kNever);
    }
  }
  const double ticks_per_second = 1.0 / scale.ToSeconds(1).value();
  for (const LinearCut& cut : cuts) {
    if (cut.most == kInfinity) continue;
    LinearCut added = cut;
    // Half a tick a layer and transition, and double sums of priced bytes.
    const double rounding = (cut.forward + cut.backward + cut.sync) * 2.0 * (layer_count + 1.0) +
                            std::abs(cut.most) * ticks_per_second * 1e-12;
    added.most = cut.most * ticks_per_second + rounding;
    ticks.cuts.push_back(added);
  }
  if (ticks.cuts.empty()) ticks.cuts.push_back({1.0, 1.0, 1.0, whole * 4.0 * ticks_per_second});
  return ticks;
}

std::vector<FrontCase> CasesOf(const TickStage& stage) {
  std::vector<FrontCase> cases;
  const std::vector<double> layer_counts = LayerCounts(stage);
  const std::vector<int64_t> transients = ValuesOf(stage, &TickStage::Option::transient);
  for (int64_t budget : ValuesOf(stage, &TickStage::Option::budget)) {
    for (int64_t transient : transients) {
      std::optional<FrontCase> front_case = MakeCase(stage, layer_counts, transient, budget);
      if (front_case) cases.push_back(*std::move(front_case));
    }
  }
  return cases;
}

}  // namespace parplan
