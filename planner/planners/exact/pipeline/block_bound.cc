#include "planner/planners/exact/pipeline/block_bound.h"

#include <algorithm>
#include <cmath>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kBlockRounding = 1.0 - 1e-11;
// Growth of the step until one is possible, and halvings of the last interval: the bound is within
// a factor of 1 + 0.25 / 2^20 of what the paths allow.
constexpr double kBlockGrowth = 1.25;
constexpr int kBlockGrowths = 200;
constexpr int kBlockHalvings = 20;

// Seconds of a layer under an option.
struct LayerTimes {
  double forward = 0.0;
  double passes = 0.0;
  double sync = 0.0;
};

LayerTimes TimesOf(const StageOption& option) {
  return {option.forward.value(), (option.forward + option.backward).value(), option.sync.value()};
}

// Returns the definition with most layers that are recomputed, the first of equal ones; -1 if there
// are none.
int MajorOf(const BlockChoice& choice, const std::vector<int>& counts) {
  int major = -1;
  for (int definition = 0; definition < static_cast<int>(counts.size()); ++definition) {
    if (choice.recomputed[definition] < 0) continue;
    if (major < 0 || counts[definition] > counts[major]) major = definition;
  }
  return major;
}

// Returns the micro-batches that each layer of a device has in flight at least, at its first
// backward pass.
double InFlightAtFirstBackward(const PipelineSetting& setting, int device, bool interleaves) {
  if (!interleaves) return static_cast<double>(setting.stage(device).in_flight);
  const int depth = setting.depth();
  return std::min(depth, 2 * (depth - 1 - device) + 1);
}

}  // namespace

BlockBound::BlockBound(const PipelineSetting& setting, const BlockChoice& choice,
                       int fewest_virtual_stages, int most_virtual_stages)
    : devices_(setting.depth()),
      micro_batch_count_(static_cast<double>(setting.candidate().micro_batch_count)),
      most_virtual_stages_(most_virtual_stages) {
  const ModelSpec& model = setting.problem().model();
  std::vector<int> counts(model.layer_definitions().size());
  for (const ModelLayerRun& run : model.layer_runs()) {
    counts[run.definition_index] += run.layer_count;
  }
  const auto whole = [&](int definition) -> const StageOption& {
    return setting.table().options(definition)[choice.whole[definition]];
  };
  const int major = MajorOf(choice, counts);
  const int first = setting.definition_of(0);
  const int last = setting.definition_of(setting.layer_count() - 1);
  LayerTimes major_times;
  if (major >= 0) {
    const StageOption& again = setting.table().options(major)[choice.recomputed[major]];
    major_times = TimesOf(whole(major));
    const LayerTimes repeated = TimesOf(again);
    layer_count_ = counts[major];
    layer_pass_ = major_times.passes;
    recomputation_pass_ = std::max(0.0, repeated.passes - major_times.passes);
    layer_ = micro_batch_count_ * major_times.passes + major_times.sync;
    // Longer backward passes may hide more of the synchronisation.
    recomputation_ = std::max(0.0, micro_batch_count_ * (repeated.passes - major_times.passes) +
                                       repeated.sync - major_times.sync);
  }
  double least_forward = kInfinity;
  double least_sync = kInfinity;
  // The least that recomputing a layer adds, on a device and for one micro-batch; and the layers
  // between the ends that are never recomputed.
  double least_more = kInfinity;
  double least_more_pass = kInfinity;
  int never_recomputed = 0;
  for (int definition = 0; definition < static_cast<int>(counts.size()); ++definition) {
    if (counts[definition] == 0) continue;
    const LayerTimes times = TimesOf(whole(definition));
    least_forward = std::min(least_forward, times.forward);
    double sync = times.sync;
    if (choice.recomputed[definition] >= 0) {
      const StageOption& again = setting.table().options(definition)[choice.recomputed[definition]];
      sync = std::min(sync, again.sync.value());
      const LayerTimes repeated = TimesOf(again);
      const double passes = repeated.passes - times.passes;
      least_more_pass = std::min(least_more_pass, std::max(0.0, passes));
      least_more = std::min(
          least_more, std::max(0.0, micro_batch_count_ * passes + repeated.sync - times.sync));
    }
    least_sync = std::min(least_sync, sync);
    if (definition == major) continue;
    int movable = counts[definition];
    if (choice.recomputed[definition] >= 0) other_recomputed_ += movable;
    if (definition == first) --movable;
    if (definition == last && setting.layer_count() > 1) --movable;
    if (movable > 0) is_uniform_ = false;
    if (choice.recomputed[definition] < 0) never_recomputed += movable;
    others_ += movable * (micro_batch_count_ * times.passes + sync);
    mean_fixed_ += movable * micro_batch_count_ * times.passes / setting.depth();
  }
  if (major == first || major == last) is_uniform_ = false;
  const int depth = setting.depth();
  const bool interleaves = most_virtual_stages > 1;
  const double sends =
      std::min(setting.least_send(/*leaves_node=*/false), setting.least_send(/*leaves_node=*/true));
  for (int index = 0; index < depth; ++index) {
    Device& device = devices_[index];
    device.weight = micro_batch_count_ / depth +
                    (depth - 1.0 - index) / (static_cast<double>(depth) * most_virtual_stages);
    if (index > 0) {
      device.entry = TimesOf(whole(first)).forward + (index - 1) * least_forward + index * sends;
    }
    device.room = setting.largest_budget().as_double();
    const double in_flight = InFlightAtFirstBackward(setting, index, interleaves);
    const auto add_end = [&](int definition) {
      if (definition == major) return;
      const LayerTimes times = TimesOf(whole(definition));
      device.fixed += micro_batch_count_ * times.passes + least_sync;
      device.room -= whole(definition).states.as_double();
      mean_fixed_ += times.passes * device.weight;
    };
    if (index == 0) add_end(first);
    if (index + 1 == depth && setting.layer_count() > 1) add_end(last);
    if (major < 0) continue;
    const StageOption& kept = whole(major);
    const StageOption& again = setting.table().options(major)[choice.recomputed[major]];
    device.room -= std::min(kept.transient, again.transient).as_double();
    const double states = std::min(kept.states, again.states).as_double();
    device.whole_bytes = states + kept.kept.as_double() * in_flight;
    device.recomputed_bytes = states + again.kept.as_double() * in_flight;
    const double room = std::max(0.0, device.room) * (1.0 + 1e-12);
    const auto layers = [&](double bytes) {
      return bytes > 0.0 ? std::min(room / bytes, layer_count_) : layer_count_;
    };
    device.whole_layers = layers(device.whole_bytes);
    device.most_layers = std::max(device.whole_layers, layers(device.recomputed_bytes));
    const double saved = device.whole_bytes - device.recomputed_bytes;
    if (saved > 0.0) device.recomputed_share = device.whole_bytes / saved;
    // Each virtual stage recomputes a layer, but those that may have none that can be. With these
    // recomputed the device has room for a few layers more.
    const int ends = (index == 0 ? 1 : 0) + (index + 1 == depth ? 1 : 0);
    const int stages = std::max(0, fewest_virtual_stages - ends - never_recomputed);
    device.fixed += stages * least_more;
    mean_fixed_ += stages * least_more_pass * device.weight;
    if (stages > 0 && device.recomputed_share > 0.0) {
      const double freed = recomputation_pass_ > 0.0 && recomputation_ > 0.0
                               ? stages * std::max(least_more / recomputation_,
                                                   least_more_pass / recomputation_pass_)
                               : layer_count_;
      device.whole_layers =
          std::min(device.most_layers, device.whole_layers + freed / device.recomputed_share);
    }
  }
  mean_fixed_ += sends * (static_cast<double>(depth) * fewest_virtual_stages - 1.0);
  // The first device synchronises at least the first layer.
  mean_fixed_ += choice.recomputed[first] >= 0 ? least_sync : whole(first).sync.value();
}

double BlockBound::Place(std::vector<Segment>& segments) const {
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.cost < b.cost; });
  double left = layer_count_;
  double cost = 0.0;
  for (const Segment& segment : segments) {
    const double layers = std::min(left, segment.layers);
    left -= layers;
    cost += layers * segment.cost;
    if (left <= 0.0) return cost;
  }
  return left > layer_count_ * 1e-11 ? kInfinity : cost;
}

bool BlockBound::Allows(double step) const {
  std::vector<Segment> loads;
  std::vector<Segment> means;
  double room = 0.0;
  for (const Device& device : devices_) {
    const double time = (step - device.entry - device.fixed) * (1.0 + 1e-11);
    if (time < 0.0) return false;
    room += time;
    const double whole =
        layer_ > 0.0 ? std::min(device.whole_layers, time / layer_) : device.whole_layers;
    double more = 0.0;
    const double share = device.recomputed_share;
    const double cost = layer_ + recomputation_ * share;
    if (whole == device.whole_layers) {
      more = device.most_layers - whole;
      if (cost > 0.0) more = std::min(more, (time - whole * layer_) / cost);
    }
    if (is_uniform_) {
      const double layers = std::floor((whole + more) * (1.0 + 1e-9));
      more = std::min(more, std::max(0.0, layers - whole));
      loads.push_back({layer_, std::min(whole, layers)});
      means.push_back({layer_pass_ * device.weight, std::min(whole, layers)});
    } else {
      loads.push_back({layer_, whole});
      means.push_back({layer_pass_ * device.weight, whole});
    }
    loads.push_back({cost, more});
    means.push_back({(layer_pass_ + recomputation_pass_ * share) * device.weight, more});
  }
  if ((Place(loads) + others_) * kBlockRounding > room) return false;
  return (Place(means) + mean_fixed_) * kBlockRounding <= step;
}

double BlockBound::Bound(double cutoff) const {
  double layers = 0.0;
  for (const Device& device : devices_) layers += device.most_layers;
  if (layers < layer_count_ * kBlockRounding) return kInfinity;
  if (cutoff < kInfinity && !Allows(cutoff)) return cutoff;
  double low = (layer_count_ * layer_ + others_) / static_cast<double>(devices_.size());
  low = std::min(low, cutoff);
  double high = low;
  for (int growth = 0; !Allows(high); ++growth) {
    if (growth == kBlockGrowths) return cutoff;
    low = high;
    high = std::min(std::max(high * kBlockGrowth, 1e-9), cutoff);
  }
  for (int halving = 0; halving < kBlockHalvings && low < high; ++halving) {
    const double middle = 0.5 * (low + high);
    (Allows(middle) ? high : low) = middle;
  }
  return low * kBlockRounding;
}

bool BlockBound::AllowsCount(int count, double cutoff) const {
  // The first layers of a stage may be of other definitions.
  const double number = std::max(0, count - other_recomputed_);
  const double counted = static_cast<double>(count) * most_virtual_stages_;
  double all = 0.0;
  bool has_more = false;
  for (const Device& device : devices_) {
    const double time = (cutoff - device.entry - device.fixed) * (1.0 + 1e-11);
    if (time < 0.0) return false;
    // At least `number` of the layers are recomputed, or all.
    const double both = layer_ + recomputation_;
    double most = layer_count_;
    if (time < kInfinity && both > 0.0) {
      most = both * number >= time ? time / both
             : layer_ > 0.0        ? (time - recomputation_ * number) / layer_
                                   : layer_count_;
    }
    // At most `counted` of them are.
    const double room = std::max(0.0, device.room) * (1.0 + 1e-11);
    if (device.whole_bytes > 0.0) {
      const double filled = counted * device.recomputed_bytes;
      const double held = filled > room ? room / device.recomputed_bytes
                                        : counted + (room - filled) / device.whole_bytes;
      most = std::min(most, std::max(held, room / device.whole_bytes));
    }
    if (is_uniform_) most = std::floor(most * (1.0 + 1e-9));
    all += most;
    if (!is_uniform_ || most > count) has_more = true;
  }
  return has_more && all >= layer_count_ * kBlockRounding;
}

}  // namespace parplan
