// The bound of `UnevenBound` from what each device can hold.
//
// The last chunk of a device has fewer micro-batches in flight than its other chunks, down to one
// on the last device, so layers that lie there need less memory. But the path of that chunk (see
// uneven_bound.h) counts them more often. Let W be the work of a micro-batch on all devices, w_d
// that of device d, L_d the part of it in the last chunk, and S_d the sum of L_d to L_{P-1}. The
// path through device d enters it behind all work but S_d, and lacks P passes of each direction of
// its other chunks:
//
//   T >= W - S_d + (m - P) w_d + P L_d + messages
//
// A mean of it, with weight a, and of the path through all passes of the device, T >= entry_d +
// m w_d, with weight 1 - a, counts a layer of time t
//
//   m t in the last chunk, where it needs the bytes s + min(P, 2 (P - 1 - d) + 1) k
//   (m - a P) t in the others, where it needs s + P k
//
// A layer is worth its least time. With the time that the mean leaves and the memory of one device,
// a device holds no more worth than the concave hull of these points allows. If all devices
// together hold less than the layers are worth, no plan takes T. From m L_d <= (m - P) w_d + P L_d
// follows (m - 1) L_d <= T - W + S_{d+1}, which bounds S_d from above, the last device first.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/planners/exact/interleaved/uneven_bound.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Relative rounding error that the sums of layers and capacities may have.
constexpr double kHeldRounding = 1e-9;
// Weights of the path of the last chunk that are tried for each device; the least worth counts.
constexpr double kLastChunkWeights[] = {0.0, 0.5, 1.0};
// Most numbers of micro-batches in flight that are kept apart: devices whose numbers lie
// between two of them count as having the smaller one. Not measured for other values.
constexpr int kInFlightSteps = 16;
// Least part of a device's memory that a layer counts as.
constexpr double kLeastShare = 1e-15;
// Layers are worth their least cost if the memory of all devices costs this many times all work.
// Any worth gives a bound.
constexpr double kWorthPrices[] = {0.0, 1.0, 8.0};
// Halvings of the interval of steps: the bound is within 1/2^12 of the interval of the least step.
constexpr int kHeldHalvings = 12;
// Doublings of the step without a cutoff, after which memory never suffices.
constexpr int kHeldGrowths = 40;

struct HullPoint {
  double cost = 0.0;
  double worth = 0.0;
};

// The most worth that a device can hold, by the cost it may have: a concave polygon that begins at
// the origin.
class WorthHull {
 public:
  explicit WorthHull(std::vector<HullPoint> points) {
    std::sort(points.begin(), points.end(), [](const HullPoint& a, const HullPoint& b) {
      return a.cost < b.cost || (a.cost == b.cost && a.worth > b.worth);
    });
    for (const HullPoint& point : points) {
      if (point.worth <= hull_.back().worth) continue;
      while (hull_.size() > 1) {
        const HullPoint& middle = hull_.back();
        const HullPoint& first = hull_[hull_.size() - 2];
        if ((middle.worth - first.worth) * (point.cost - first.cost) >
            (point.worth - first.worth) * (middle.cost - first.cost)) {
          break;
        }
        hull_.pop_back();
      }
      hull_.push_back(point);
    }
  }

  // Returns the most worth at a cost of at least 0.
  double At(double cost) const {
    // The polygon may rise where the cost is 0; the top of that counts.
    const auto next =
        std::upper_bound(hull_.begin(), hull_.end(), cost,
                         [](double value, const HullPoint& point) { return value < point.cost; });
    if (next == hull_.end()) return hull_.back().worth;
    if (next == hull_.begin()) return next->worth;
    const HullPoint& before = *(next - 1);
    return before.worth +
           (next->worth - before.worth) * (cost - before.cost) / (next->cost - before.cost);
  }

 private:
  std::vector<HullPoint> hull_ = {{}};
};

}  // namespace

double UnevenBound::HeldBound(const DefinitionTimes& times, const Question& question,
                              const PricedOptions& options, double cutoff) const {
  if (question.any_group_size || device_count_ < 2) return 0.0;
  const double devices = device_count_;
  const Work work = WorkOf(times, question.fewest_virtual_stages);
  const Messages messages = MessagesOf(times, question);
  double least_work = 0.0;
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (transformer_counts_[definition] == 0) continue;
    least_work += transformer_counts_[definition] * times.forward_backward[definition];
  }
  least_work *= 1.0 - kHeldRounding;
  if (!std::isfinite(least_work) || !(least_work > 0.0) || !(options.room > 0.0)) return 0.0;
  double bound = 0.0;
  for (const double price : kWorthPrices) {
    bound = std::max(bound, HeldBoundAt(times, question, options, work, messages, least_work,
                                        price * least_work / (devices * options.room), cutoff));
    if (bound >= cutoff) return cutoff;
  }
  return bound;
}

double UnevenBound::HeldBoundAt(const DefinitionTimes& times, const Question& question,
                                const PricedOptions& options, const Work& work,
                                const Messages& messages, double least_work, double price,
                                double cutoff) const {
  const auto micro_batches = static_cast<double>(question.micro_batch_count);
  const double devices = device_count_;
  double needed = 0.0;
  std::vector<double> worths(counts_.size());
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (transformer_counts_[definition] == 0) continue;
    double least = kInfinity;
    for (const PricedOption& option : options.options[definition]) {
      least = std::min(least, option.time + price * (option.states + devices * option.kept));
    }
    if (!std::isfinite(least)) return 0.0;
    worths[definition] = least;
    needed += transformer_counts_[definition] * least;
  }
  needed *= 1.0 - kHeldRounding;
  // [step of numbers in flight][weight of the last chunk]
  struct Hulls {
    double in_flight;
    std::vector<WorthHull> by_weight;
  };
  std::vector<Hulls> hulls;
  const int step_width = std::max(1, (device_count_ + kInFlightSteps - 1) / kInFlightSteps);
  const auto hulls_of = [&](int in_flight) {
    Hulls made = {.in_flight = static_cast<double>(in_flight), .by_weight = {}};
    for (const double weight : kLastChunkWeights) {
      std::vector<HullPoint> points;
      for (size_t definition = 0; definition < counts_.size(); ++definition) {
        if (transformer_counts_[definition] == 0) continue;
        for (const PricedOption& option : options.options[definition]) {
          const auto add = [&](double in_flight_of_chunk, double passes) {
            const double bytes = std::max(kLeastShare * options.room,
                                          option.states + in_flight_of_chunk * option.kept);
            // An option that never fits by itself is in no plan.
            if (bytes > options.room) return;
            const double layers = options.room / bytes;
            points.push_back({layers * passes * option.time, layers * worths[definition]});
          };
          add(in_flight, micro_batches);
          add(devices, micro_batches - weight * devices);
        }
      }
      made.by_weight.emplace_back(std::move(points));
    }
    return made;
  };
  // [device] index into `hulls`.
  std::vector<size_t> hulls_of_device(device_count_);
  for (int device = device_count_ - 1; device >= 0; --device) {
    const int in_flight = LeastInFlight(device, device_count_);
    if (hulls.empty() || in_flight >= hulls.back().in_flight + step_width) {
      hulls.push_back(hulls_of(in_flight));
    }
    hulls_of_device[device] = hulls.size() - 1;
  }
  const auto allows = [&](double step) {
    const double left = step - work.first_sync;
    double held = 0.0;
    double last_chunks = 0.0;
    for (int device = device_count_ - 1; device >= 0; --device) {
      double entry = 0.0;
      if (device > 0) {
        entry = work.first + (device - 1) * work.least + 2.0 * messages.before[device];
      }
      const double to_last_chunk =
          2.0 * ((question.fewest_virtual_stages - 1.0) * messages.lap + messages.before[device]);
      const double of_device = left - entry;
      const double behind = left - least_work + last_chunks - to_last_chunk;
      if (of_device < 0.0 || behind < 0.0) return false;
      last_chunks += std::min(behind / (micro_batches - 1.0), of_device / micro_batches);
      const double of_last_chunk = left - least_work + last_chunks - to_last_chunk;
      const Hulls& of = hulls[hulls_of_device[device]];
      double worth = kInfinity;
      for (size_t k = 0; k < of.by_weight.size(); ++k) {
        const double weight = kLastChunkWeights[k];
        worth = std::min(worth,
                         of.by_weight[k].At((1.0 - weight) * of_device + weight * of_last_chunk));
      }
      held += worth;
      if (held >= needed) return true;
    }
    return false;
  };
  double low = Quick(times, question.micro_batch_count);
  if (low >= cutoff || allows(low)) return std::min(low, cutoff);
  double high = cutoff;
  if (std::isfinite(cutoff)) {
    if (!allows(cutoff)) return cutoff;
  } else {
    high = low;
    for (int growth = 0; !allows(high); ++growth) {
      if (growth == kHeldGrowths) return cutoff;
      low = high;
      high *= 2.0;
    }
  }
  for (int halving = 0; halving < kHeldHalvings; ++halving) {
    const double middle = 0.5 * (low + high);
    (allows(middle) ? high : low) = middle;
  }
  return std::min(low * (1.0 - kHeldRounding), cutoff);
}

}  // namespace parplan
