#include "planner/planners/exact/interleaved/interleaved_relaxation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kRelaxationRounding = 1.0 - 1e-11;
// Prices tried on a line; the loop usually ends earlier, at a vertex of the lower hull.
constexpr int kLineSteps = 24;
// Pairs of multipliers that are kept, the best ones: a bound of partial choices takes the largest
// over them, so more cost time in every choice. Not measured for other numbers.
constexpr size_t kMaxDuals = 6;
// Length of the first subgradient step, as a share of what the wanted bound would need. The length
// and the numbers of steps below were chosen by hand and not measured one by one; larger steps
// overshoot, smaller ones need more steps for the same bound.
constexpr double kFirstStride = 0.7;
// Rounds in which the prices of devices that are too full rise until everything fits, and the
// factor of each rise: 60 rises of 6 % multiply a price by 33.
constexpr int kFitRounds = 60;
constexpr double kPriceRise = 1.06;
// Rounds of using up the remaining memory, in each of which every definition may take one faster
// option. Fewer may leave memory unused. Not measured for other numbers.
constexpr int kFillRounds = 4;

std::vector<double> Unit(int size, int index) {
  std::vector<double> unit(size);
  unit[index] = 1.0;
  return unit;
}

}  // namespace

InterleavedRelaxation::InterleavedRelaxation(const PipelineSetting& setting,
                                             const LayerMenus& menus, InterleavedLoads loads,
                                             int64_t micro_batch_count)
    : menus_(menus),
      loads_(std::move(loads)),
      micro_batches_(static_cast<double>(micro_batch_count)),
      definition_count_(static_cast<int>(setting.problem().model().layer_definitions().size())) {
  std::vector<char> was_seen(definition_count_);
  for (int device = 0; device < loads_.device_count(); ++device) {
    // Every definition needs its least transient while it runs.
    double transient = 0.0;
    for (const InterleavedLoads::Share& share : loads_.shares(device)) {
      transient = std::max(transient, menus.least_transient(share.definition));
      if (!was_seen[share.definition]++) definitions_.push_back(share.definition);
    }
    rooms_.push_back(setting.largest_budget().as_double() - transient);
  }
  std::sort(definitions_.begin(), definitions_.end());
}

InterleavedRelaxation::Dual InterleavedRelaxation::DualOf(std::vector<double> time_weights,
                                                          std::vector<double> memory_prices) const {
  Dual dual;
  dual.weights.resize(definition_count_);
  dual.least.resize(definition_count_);
  const int device_count = loads_.device_count();
  const double through = time_weights[device_count];
  for (const InterleavedLoads::Passes& passes : loads_.through()) {
    dual.weights[passes.definition].forward_backward += through * passes.count;
  }
  dual.constant += through * loads_.through_messages();
  double later = 1.0 - through;
  for (int device = 0; device < device_count; ++device) {
    const double time = time_weights[device];
    const double price = memory_prices[device];
    // Later devices wait for the first stage of this one.
    later -= time;
    const double waits = std::max(0.0, later);
    for (const InterleavedLoads::Share& share : loads_.shares(device)) {
      Dual::Weights& weights = dual.weights[share.definition];
      weights.forward_backward += time * micro_batches_ * share.layers + waits * share.first;
      weights.states += price * share.layers;
      weights.kept += price * share.in_flight;
      // The last gradient travels on to the first device, which synchronises.
      if (device == 0) weights.sync += share.layers;
    }
    dual.constant += 2.0 * time * loads_.messages(device) - price * rooms_[device];
  }
  dual.time_weights = std::move(time_weights);
  dual.memory_prices = std::move(memory_prices);
  return dual;
}

void InterleavedRelaxation::Choose(Dual& dual, std::vector<const LayerItem*>& chosen) const {
  chosen.assign(definition_count_, nullptr);
  dual.bound = dual.constant;
  for (const int definition : definitions_) {
    const Dual::Weights& weights = dual.weights[definition];
    double least = kInfinity;
    for (const LayerItem& item : menus_.items(definition)) {
      const double cost = weights.Of(item);
      if (cost >= least) continue;
      least = cost;
      chosen[definition] = &item;
    }
    dual.least[definition] = least;
    dual.bound += least;
  }
  // Sums with cancellation are as accurate as their largest terms.
  double priced = 0.0;
  for (size_t device = 0; device < rooms_.size(); ++device) {
    priced += std::abs(dual.memory_prices[device] * rooms_[device]);
  }
  const double lost = (1.0 - kRelaxationRounding) * (std::abs(dual.bound) + priced);
  dual.constant -= lost;
  dual.bound -= lost;
}

InterleavedRelaxation::Use InterleavedRelaxation::UseOf(
    const std::vector<const LayerItem*>& chosen) const {
  Use use;
  double sync = 0.0;
  double before = 0.0;
  for (int device = 0; device < loads_.device_count(); ++device) {
    double time = 2.0 * loads_.messages(device) + before;
    double memory = 0.0;
    for (const InterleavedLoads::Share& share : loads_.shares(device)) {
      const LayerItem& item = *chosen[share.definition];
      time += micro_batches_ * share.layers * item.forward_backward;
      memory += share.layers * item.states + share.in_flight * item.kept;
      before += share.first * item.forward_backward;
      if (device == 0) sync += share.layers * item.sync;
    }
    use.times.push_back(time + sync);
    use.memories.push_back(memory);
  }
  double through = loads_.through_messages() + sync;
  for (const InterleavedLoads::Passes& passes : loads_.through()) {
    through += passes.count * chosen[passes.definition]->forward_backward;
  }
  use.times.push_back(through);
  return use;
}

void InterleavedRelaxation::Keep(Dual dual) {
  duals_.push_back(std::move(dual));
  std::stable_sort(duals_.begin(), duals_.end(),
                   [](const Dual& a, const Dual& b) { return a.bound > b.bound; });
  if (duals_.size() > kMaxDuals) duals_.pop_back();
}

// Finds the best bound along a line of prices. Between choices that need too much and choices that
// fit, the price at which both cost the same is tried next.
double InterleavedRelaxation::SearchLine(const std::vector<double>& time_weights,
                                         const std::vector<double>& direction) {
  struct Point {
    double time = 0.0;
    double excess = 0.0;
  };
  const auto try_price = [&](double price, Dual& dual) {
    std::vector<double> prices = direction;
    for (double& each : prices) each *= price;
    dual = DualOf(time_weights, std::move(prices));
    std::vector<const LayerItem*> chosen;
    Choose(dual, chosen);
    const Use use = UseOf(chosen);
    Point point;
    for (size_t row = 0; row < time_weights.size(); ++row) {
      point.time += time_weights[row] * use.times[row];
    }
    for (size_t device = 0; device < direction.size(); ++device) {
      point.excess += direction[device] * (use.memories[device] - rooms_[device]);
    }
    return point;
  };
  Dual best;
  Point fast = try_price(0.0, best);
  if (fast.excess <= 0.0) {
    Keep(best);
    return best.bound;
  }
  // At an extremely high price, memory alone counts.
  double room = 0.0;
  for (size_t device = 0; device < direction.size(); ++device) {
    room += direction[device] * rooms_[device];
  }
  Dual dual;
  Point small = try_price(1e6 * fast.time / std::max(1.0, std::abs(room)), dual);
  if (small.excess > 0.0) {
    // Even the choices that need nearly the least memory do not fit.
    if (dual.bound > best.bound) best = dual;
    Keep(best);
    return best.bound;
  }
  for (int step = 0; step < kLineSteps && small.time > fast.time; ++step) {
    const double price = (small.time - fast.time) / (fast.excess - small.excess);
    const Point point = try_price(price, dual);
    const bool is_better = dual.bound > best.bound;
    if (is_better) best = dual;
    if (point.excess == small.excess || point.excess == fast.excess) break;
    (point.excess > 0.0 ? fast : small) = point;
  }
  Keep(best);
  return best.bound;
}

double InterleavedRelaxation::QuickBound() {
  const int count = loads_.device_count();
  // The choices that need the least memory do not fit.
  for (int device = 0; device < count; ++device) {
    double needed = 0.0;
    for (const InterleavedLoads::Share& share : loads_.shares(device)) {
      double least = kInfinity;
      for (const LayerItem& item : menus_.items(share.definition)) {
        least = std::min(least, share.layers * item.states + share.in_flight * item.kept);
      }
      needed += least;
    }
    if (needed * kRelaxationRounding > rooms_[device]) return kInfinity;
  }
  std::vector<double> even_times(count + 1, 1.0 / count);
  even_times.back() = 0.0;
  const std::vector<double> even(count, 1.0 / count);
  const std::vector<double> through = Unit(count + 1, count);
  double bound = SearchLine(even_times, even);
  bound = std::max(bound, SearchLine(through, even));
  bound = std::max(bound, SearchLine(through, Unit(count, 0)));
  return std::max(bound, SearchLine(Unit(count + 1, count - 1), Unit(count, count - 1)));
}

double InterleavedRelaxation::Improve(double wanted, int step_count) {
  const auto count = static_cast<size_t>(loads_.device_count());
  Dual best = duals_.front();
  Dual dual = best;
  double stride = kFirstStride;
  int failures = 0;
  std::vector<const LayerItem*> chosen;
  for (int step = 0; step < step_count && best.bound < wanted; ++step) {
    Choose(dual, chosen);
    if (dual.bound > best.bound) {
      best = dual;
      failures = 0;
    } else if (++failures == 8) {
      stride *= 0.5;
      failures = 0;
      dual = best;
      Choose(dual, chosen);
    }
    const Use use = UseOf(chosen);
    // Multipliers are scaled to seconds: weights times the bound, prices times the room.
    const double scale = std::max(best.bound, 1e-12);
    const auto row_count = use.times.size();
    double mean = 0.0;
    for (const double time : use.times) mean += time / static_cast<double>(row_count);
    double square = 0.0;
    std::vector<double> weights = dual.time_weights;
    std::vector<double> prices = dual.memory_prices;
    std::vector<double> time_slopes(row_count);
    std::vector<double> memory_slopes(count);
    for (size_t row = 0; row < row_count; ++row) {
      time_slopes[row] = (use.times[row] - mean) / scale;
      square += time_slopes[row] * time_slopes[row];
    }
    for (size_t device = 0; device < count; ++device) {
      memory_slopes[device] = use.memories[device] / std::max(rooms_[device], 1.0) - 1.0;
      if (prices[device] == 0.0) memory_slopes[device] = std::max(memory_slopes[device], 0.0);
      square += memory_slopes[device] * memory_slopes[device];
    }
    if (square == 0.0) break;
    const double goal = wanted < kInfinity ? std::min(wanted, 1.1 * scale) : 1.02 * scale;
    const double length = stride * (goal - std::min(dual.bound, best.bound)) / square;
    double sum = 0.0;
    for (size_t row = 0; row < row_count; ++row) {
      weights[row] = std::max(0.0, weights[row] + length * time_slopes[row] / scale);
      sum += weights[row];
    }
    if (!(sum > 0.0)) break;
    for (double& weight : weights) weight /= sum;
    for (size_t device = 0; device < count; ++device) {
      prices[device] = std::max(
          0.0, prices[device] + length * memory_slopes[device] / std::max(rooms_[device], 1.0));
    }
    dual = DualOf(std::move(weights), std::move(prices));
  }
  Keep(best);
  return duals_.front().bound;
}

std::optional<std::vector<int>> InterleavedRelaxation::Round(double share) const {
  Dual dual = duals_.front();
  const auto count = static_cast<size_t>(loads_.device_count());
  // Memory has a price on every device, since nothing else would relieve devices that are too full.
  double highest_price = 0.0;
  double time = dual.bound;
  for (const double price : dual.memory_prices) highest_price = std::max(highest_price, price);
  for (size_t device = 0; device < count; ++device) {
    double& price = dual.memory_prices[device];
    const double floor =
        highest_price > 0.0 ? 0.05 * highest_price : 1e-3 * time / std::max(rooms_[device], 1.0);
    price = std::max(price, floor);
    // The time of every device has some weight.
    dual.time_weights[device] = std::max(dual.time_weights[device], 0.05);
  }
  double sum = 0.0;
  for (const double weight : dual.time_weights) sum += weight;
  for (double& weight : dual.time_weights) weight /= sum;
  std::vector<const LayerItem*> chosen;
  for (int round = 0; round < kFitRounds; ++round) {
    dual = DualOf(dual.time_weights, dual.memory_prices);
    Choose(dual, chosen);
    Use use = UseOf(chosen);
    bool fits = true;
    for (size_t device = 0; device < count; ++device) {
      if (use.memories[device] <= rooms_[device] * share) continue;
      fits = false;
      // The price rises faster the further the device is beyond its room.
      const double excess = use.memories[device] / std::max(rooms_[device] * share, 1.0) - 1.0;
      dual.memory_prices[device] *= kPriceRise + std::min(excess, 1.0);
    }
    if (!fits) continue;
    Fill(share, chosen, use);
    std::vector<int> options(definition_count_, -1);
    for (const int definition : definitions_) options[definition] = chosen[definition]->option;
    return options;
  }
  return std::nullopt;
}

// Applies the upgrades that save most time per byte first.
void InterleavedRelaxation::Fill(double share, std::vector<const LayerItem*>& chosen,
                                 Use& use) const {
  struct Upgrade {
    int definition = 0;
    const LayerItem* item = nullptr;
    double rate = 0.0;
  };
  std::vector<std::vector<std::pair<int, const InterleavedLoads::Share*>>> places(
      definition_count_);
  for (int device = 0; device < loads_.device_count(); ++device) {
    for (const InterleavedLoads::Share& each : loads_.shares(device)) {
      places[each.definition].emplace_back(device, &each);
    }
  }
  for (int round = 0; round < kFillRounds; ++round) {
    std::vector<Upgrade> upgrades;
    for (const int definition : definitions_) {
      const LayerItem& now = *chosen[definition];
      for (const LayerItem& item : menus_.items(definition)) {
        double gain = 0.0;
        double bytes = 0.0;
        for (const auto& [device, each] : places[definition]) {
          gain += each->layers * (micro_batches_ * (now.forward_backward - item.forward_backward) +
                                  now.sync - item.sync);
          bytes += std::max(0.0, each->layers * (item.states - now.states) +
                                     each->in_flight * (item.kept - now.kept));
        }
        if (gain > 0.0) upgrades.push_back({definition, &item, gain / std::max(bytes, 1.0)});
      }
    }
    std::stable_sort(upgrades.begin(), upgrades.end(),
                     [](const Upgrade& a, const Upgrade& b) { return a.rate > b.rate; });
    bool changed = false;
    std::vector<char> was_changed(definition_count_);
    for (const Upgrade& upgrade : upgrades) {
      if (was_changed[upgrade.definition]) continue;
      const LayerItem& now = *chosen[upgrade.definition];
      const auto more = [&](const InterleavedLoads::Share& each) {
        return each.layers * (upgrade.item->states - now.states) +
               each.in_flight * (upgrade.item->kept - now.kept);
      };
      const bool fits = std::all_of(places[upgrade.definition].begin(),
                                    places[upgrade.definition].end(), [&](const auto& place) {
                                      return use.memories[place.first] + more(*place.second) <=
                                             rooms_[place.first] * share;
                                    });
      if (!fits) continue;
      for (const auto& [device, each] : places[upgrade.definition]) {
        use.memories[device] += more(*each);
      }
      chosen[upgrade.definition] = upgrade.item;
      was_changed[upgrade.definition] = 1;
      changed = true;
    }
    if (!changed) return;
  }
}

}  // namespace parplan
