// The bound of `UnevenBound` that prices memory.
//
// Let t, y, s and k be the time, synchronisation, states and kept bytes of the option that a layer
// has, and n_d the micro-batches in flight that device d keeps at least of each of its layers. With
// weights u_d >= 0 of the paths of devices and v >= 0 of the mean path, all together 1, and a price
// p >= 0 of memory, a step takes at least
//
//   sum over d of u_d (entry_d + m w_d + sync_d) + v (mean path) + p (bytes on all devices - P
//   room)
//
// where the last term is not positive for plans that fit. All of it is a sum over layers, each of
// which costs at least what is least over devices and options:
//
//   (m u_d + v q_d) t + u_d y + p (s + n_d k),   q_d = m / P + (P - 1 - d) / (P V)
//
// The weights u_d are chosen so that a mean layer costs the same on every device. They and the cost
// of an option are linear in d and n_d, and n_d is constant on the first half of the devices and
// falls evenly on the others. So the devices at the ends of the halves decide.

#include <algorithm>
#include <cmath>

#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums.
constexpr double kPriceRounding = 1.0 - 1e-11;
// Prices of memory that are tried, each half of the one before, and none. Not measured for other
// numbers.
constexpr int kPrices = 14;
// The first price makes the memory of all devices this many times as dear as all work; the
// last one above 0 is 2^13 times smaller. Not measured for other values.
constexpr double kFirstPrice = 8.0;
// Weights of the mean path that are tried. Any of them gives a lower bound, and the best one is
// taken; each takes as long as the others. Chosen by hand, not measured one by one.
constexpr double kMeanPaths[] = {1.0, 0.9, 0.6, 0.3, 0.0};

}  // namespace

PricedOption UnevenBound::MeanChoice(const PricedOptions& options, double passes, double price,
                                     double in_flight) const {
  PricedOption mean;
  double layers = 0.0;
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    const PricedOption* best = nullptr;
    double least = kInfinity;
    for (const PricedOption& option : options.options[definition]) {
      const double cost = passes * option.time + option.sync / device_count_ +
                          price * (option.states + in_flight * option.kept);
      if (cost >= least) continue;
      least = cost;
      best = &option;
    }
    if (best == nullptr) continue;
    const double count = counts_[definition];
    mean.time += count * best->time;
    mean.sync += count * best->sync;
    mean.states += count * best->states;
    mean.kept += count * best->kept;
    layers += count;
  }
  mean.time /= layers;
  mean.sync /= layers;
  mean.states /= layers;
  mean.kept /= layers;
  return mean;
}

double UnevenBound::BoundAtPrices(const Question& question, const Work& work,
                                  const Messages& messages, const PricedOptions& options,
                                  const PricedOption& mean, const PathPrices& prices) const {
  const auto micro_batches = static_cast<double>(question.micro_batch_count);
  const double devices = device_count_;
  const double sync_share = prices.ends_with_own_sync ? 1.0 : 0.0;
  const double path_cost = micro_batches * mean.time + sync_share * mean.sync;
  const auto mean_passes = [&](int device) {
    return micro_batches / devices +
           (devices - 1.0 - device) / (devices * question.most_virtual_stages);
  };
  // The cost of the mean layer on a device but for the path of the device.
  const auto fixed_cost = [&](int device) {
    return prices.mean_path * mean_passes(device) * mean.time +
           prices.memory * (mean.states + LeastInFlight(device, device_count_) * mean.kept);
  };
  double all_fixed = 0.0;
  for (int device = 0; device < device_count_; ++device) all_fixed += fixed_cost(device);
  const double layer_cost = ((1.0 - prices.mean_path) * path_cost + all_fixed) / devices;
  const auto weight_of = [&](int device) { return (layer_cost - fixed_cost(device)) / path_cost; };
  double bound = prices.mean_path * ((question.fewest_virtual_stages - 1.0) * messages.lap +
                                     2.0 * messages.mean_before + work.first_sync) -
                 prices.memory * devices * options.room;
  for (int device = 0; device < device_count_; ++device) {
    const double weight = weight_of(device);
    if (weight < 0.0) return 0.0;
    double entry = prices.ends_with_own_sync ? 0.0 : work.first_sync;
    if (device > 0 && prices.ends_with_own_sync) {
      entry += work.first_forward + (device - 1) * work.least_forward + messages.before[device];
    } else if (device > 0) {
      entry += work.first + (device - 1) * work.least + 2.0 * messages.before[device];
    }
    bound += std::max(0.0, weight) * entry;
  }
  // All devices up to this one have as many micro-batches in flight.
  const int middle = (device_count_ - 1) / 2;
  // The costs of a layer on the devices that decide.
  struct Costs {
    double time;
    double sync;
    double kept;
  };
  Costs costs[4];
  const int deciding[4] = {0, middle, std::min(middle + 1, device_count_ - 1), device_count_ - 1};
  for (int k = 0; k < 4; ++k) {
    const double weight = std::max(0.0, weight_of(deciding[k]));
    costs[k] = {.time = micro_batches * weight + prices.mean_path * mean_passes(deciding[k]),
                .sync = weight * sync_share,
                .kept = prices.memory * LeastInFlight(deciding[k], device_count_)};
  }
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (counts_[definition] == 0) continue;
    double least = kInfinity;
    for (const PricedOption& option : options.options[definition]) {
      const double states = prices.memory * option.states;
      for (const Costs& each : costs) {
        least = std::min(least, each.time * option.time + each.sync * option.sync + states +
                                    each.kept * option.kept);
      }
    }
    bound += counts_[definition] * least;
  }
  return bound;
}

double UnevenBound::PricedBound(const DefinitionTimes& times, const Question& question,
                                const PricedOptions& options, double cutoff) const {
  const Work work = WorkOf(times, question.fewest_virtual_stages);
  const Messages messages = MessagesOf(times, question);
  const auto micro_batches = static_cast<double>(question.micro_batch_count);
  const double devices = device_count_;
  double in_flight = 0.0;
  for (int device = 0; device < device_count_; ++device) {
    in_flight += LeastInFlight(device, device_count_) / devices;
  }
  double bound = 0.0;
  double price = options.room > 0.0
                     ? kFirstPrice * micro_batches * work.all / (devices * devices * options.room)
                     : 0.0;
  for (int k = 0; k <= kPrices; ++k) {
    if (k == kPrices) price = 0.0;
    const PricedOption mean = MeanChoice(options, micro_batches / devices, price, in_flight);
    if (!(mean.time > 0.0) || !std::isfinite(mean.time)) return 0.0;
    for (const double mean_path : kMeanPaths) {
      if (mean_path > 0.0 && question.any_group_size) continue;
      for (const bool ends_with_own_sync : {true, false}) {
        const double priced = BoundAtPrices(question, work, messages, options, mean,
                                            {price, mean_path, ends_with_own_sync});
        bound = std::max(bound, priced * kPriceRounding);
        if (bound >= cutoff) return cutoff;
      }
    }
    price *= 0.5;
  }
  return bound;
}

}  // namespace parplan
