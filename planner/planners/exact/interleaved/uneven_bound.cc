#include "planner/planners/exact/interleaved/uneven_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "planner/planners/exact/interleaved/interleaved_laps.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kUnevenRounding = 1.0 - 1e-11;
// Growth of the step until one is possible, and halvings of the last interval: the bound is within
// a factor of 1 + 0.1 / 2^30 of what the paths allow.
constexpr double kUnevenGrowth = 1.1;
constexpr int kUnevenGrowths = 400;
constexpr int kUnevenHalvings = 30;
// Weights of the laps of backward passes against those of forward passes.
constexpr double kLapWeights[] = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};

}  // namespace

UnevenBound::UnevenBound(const ModelSpec& model, int device_count)
    : device_count_(device_count),
      first_(model.definition_of_layer().front()),
      last_(model.definition_of_layer().back()),
      counts_(model.layer_definitions().size()) {
  for (const ModelLayerRun& run : model.layer_runs()) {
    counts_[run.definition_index] += run.layer_count;
  }
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (counts_[definition] > counts_[major_]) major_ = static_cast<int>(definition);
  }
  major_count_ = counts_[major_];
  for (int layer = 1; layer + 1 < model.layer_count(); ++layer) {
    if (model.definition_of_layer()[layer] != major_) is_uniform_ = false;
  }
  if (first_ == major_ || last_ == major_) is_uniform_ = false;
  transformer_counts_ = counts_;
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (!IsTransformer(model.layer_definitions()[definition].kind)) {
      transformer_counts_[definition] = 0;
    }
  }
  middle_counts_ = counts_;
  --middle_counts_[first_];
  if (model.layer_count() > 1) --middle_counts_[last_];
}

UnevenBound::Work UnevenBound::WorkOf(const DefinitionTimes& times,
                                      int fewest_virtual_stages) const {
  Work work{.first = times.forward_backward[first_],
            .last = times.forward_backward[last_],
            .least = kInfinity,
            .first_forward = times.forward[first_],
            .least_forward = kInfinity};
  double least_sync = kInfinity;
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (counts_[definition] == 0) continue;
    const double time = times.forward_backward[definition];
    work.all += time * counts_[definition];
    if (middle_counts_[definition] == 0) continue;
    work.least = std::min(work.least, time);
    work.least_forward = std::min(work.least_forward, times.forward[definition]);
    least_sync = std::min(least_sync, times.sync[definition]);
  }
  work.first_sync = times.sync[first_] + (fewest_virtual_stages - 1) * least_sync;
  return work;
}

UnevenBound::Messages UnevenBound::MessagesOf(const DefinitionTimes& times,
                                              const Question& question) const {
  Messages messages;
  messages.before.resize(device_count_);
  if (question.sends.empty()) return messages;
  double forward = 0.0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) forward += counts_[i] * times.forward[i];
  }
  double all = 0.0;
  for (const double send : question.sends) all += send;
  messages.are_slow = AreSlowMessages(all, forward);
  const double fastest = *std::min_element(question.sends.begin(), question.sends.end());
  for (int device = 0; device < device_count_; ++device) {
    messages.back = messages.are_slow ? question.sends[device] : fastest;
    messages.before[device] = messages.lap;
    messages.mean_before += messages.lap / device_count_;
    messages.lap += messages.back;
  }
  return messages;
}

double UnevenBound::Quick(const DefinitionTimes& times, int64_t micro_batch_count) const {
  const Work work = WorkOf(times, 2);
  const double devices = device_count_;
  const double entries =
      (devices - 1.0) * work.first + 0.5 * (devices - 1.0) * (devices - 2.0) * work.least;
  return (static_cast<double>(micro_batch_count) * work.all / devices + entries / devices +
          work.first_sync) *
         kUnevenRounding;
}

// The paths of devices. Each enters through a layer at least of every stage in front, and ends with
// the synchronisation of the first device or of its own.
UnevenBound::DeviceLimit UnevenBound::LimitOf(const DefinitionTimes& times,
                                              const Question& question, const Work& work,
                                              const Messages& messages, int device,
                                              double first_sync, double step) const {
  const auto micro_batches = static_cast<double>(question.micro_batch_count);
  const bool is_last = device == device_count_ - 1;
  DeviceLimit limit;
  double end_sync = 0.0;
  if (device == 0) {
    limit.ends += work.first;
    end_sync += times.sync[first_];
  }
  if (is_last) {
    limit.ends += work.last;
    end_sync += times.sync[last_];
  }
  double entry = 0.0;
  double forward_entry = 0.0;
  if (device > 0) {
    entry = work.first + (device - 1) * work.least + 2.0 * messages.before[device];
    forward_entry =
        work.first_forward + (device - 1) * work.least_forward + messages.before[device];
  }
  limit.time = std::min(step - entry - first_sync, step - forward_entry - end_sync) / micro_batches;
  const double layer = times.forward_backward[major_];
  const double layer_and_sync = layer + times.sync[major_] / micro_batches;
  const double room = step - entry - first_sync - micro_batches * limit.ends;
  const double room_of_own = step - forward_entry - end_sync - micro_batches * limit.ends;
  if (room < 0.0 || room_of_own < 0.0) {
    limit.layers = -1.0;
    return limit;
  }
  limit.layers = major_count_;
  if (layer > 0.0) limit.layers = std::min(limit.layers, room / (micro_batches * layer));
  if (layer_and_sync > 0.0) {
    limit.layers = std::min(limit.layers, room_of_own / (micro_batches * layer_and_sync));
  }
  limit.layers = std::floor(limit.layers * (1.0 + 1e-9));
  if (!question.most_layers.empty()) {
    limit.layers = std::min<double>(limit.layers, question.most_layers[device]);
  }
  return limit;
}

// Returns whether the paths allow a step of so many seconds.
bool UnevenBound::Allows(const DefinitionTimes& times, const Question& question, const Work& work,
                         const Messages& messages, const std::vector<LapPath>& laps,
                         double step) const {
  const auto micro_batches = static_cast<double>(question.micro_batch_count);
  const double devices = device_count_;
  // Layers of `major_` come whole. Those for which the other devices have no room are on the first
  // one, which synchronises them too, and that is at the end of the paths of all devices.
  double first_sync = work.first_sync;
  absl::InlinedVector<DeviceLimit, 32> limits(device_count_);
  while (true) {
    double layers_of_others = 0.0;
    for (int device = 0; device < device_count_; ++device) {
      limits[device] = LimitOf(times, question, work, messages, device, first_sync, step);
      if (limits[device].layers < 0.0) return false;
      if (device > 0) layers_of_others += limits[device].layers;
    }
    const double on_first = std::max(0.0, middle_counts_[major_] - layers_of_others);
    if (on_first > limits.front().layers) return false;
    const double sync = times.sync[first_] + on_first * times.sync[major_];
    if (sync <= first_sync) break;
    first_sync = sync;
  }
  const double laps_before_last = question.fewest_virtual_stages - 1.0;
  double mean = laps_before_last * messages.lap + 2.0 * messages.mean_before + first_sync;
  double left = work.all;
  // First every device takes the least it must have.
  const auto least_of = [&](int device) {
    const int ends = (device == 0 ? 1 : 0) + (device == device_count_ - 1 ? 1 : 0);
    return (device == 0 ? work.first : 0.0) + (device == device_count_ - 1 ? work.last : 0.0) +
           (question.fewest_virtual_stages - ends) * work.least;
  };
  const auto weight_of = [&](int device) {
    return micro_batches / devices +
           (devices - 1.0 - device) / (devices * question.most_virtual_stages);
  };
  for (int device = 0; device < device_count_; ++device) {
    left -= least_of(device);
    mean += least_of(device) * weight_of(device);
  }
  left = std::max(left, 0.0);
  // Then the rest goes where the mean path counts it least, which is to the last devices.
  for (int device = device_count_ - 1; device >= 0; --device) {
    const DeviceLimit& limit = limits[device];
    const double most =
        is_uniform_ ? limit.ends + limit.layers * times.forward_backward[major_] : limit.time;
    const double least = least_of(device);
    if (most < least * kUnevenRounding) return false;
    const double more = std::min(left, std::max(0.0, most - least));
    left -= more;
    mean += more * weight_of(device);
  }
  if (left > work.all * (1.0 - kUnevenRounding)) return false;
  if (question.any_group_size) return true;
  // The mean over the last chunks alone has all messages between virtual stages, and counts each
  // layer of these chunks as often as there are devices behind its own, over their number, more
  // than m / P times; each of the chunks has one at least.
  if (mean * kUnevenRounding > step) return false;
  if (!messages.are_slow) return true;
  const double mean_of_last = 2.0 * (laps_before_last * messages.lap + messages.mean_before) +
                              first_sync + work.all * micro_batches / devices +
                              0.5 * (devices - 1.0) * work.least;
  if (mean_of_last * kUnevenRounding > step) return false;
  // Laps count each device otherwise. All work goes where it counts least, as far as there is time.
  std::vector<int> order(laps.empty() ? 0 : device_count_);
  for (const LapPath& lap : laps) {
    for (int device = 0; device < device_count_; ++device) order[device] = device;
    std::stable_sort(order.begin(), order.end(),
                     [&lap](int a, int b) { return lap.counts[a] < lap.counts[b]; });
    double path = lap.messages + first_sync;
    double unplaced = work.all;
    for (const int device : order) {
      const double placed = std::min(unplaced, std::max(0.0, limits[device].time));
      path += placed * lap.counts[device];
      unplaced -= placed;
    }
    if (path * kUnevenRounding > step) return false;
  }
  return true;
}

// The mean over devices, each with the weight 1 / P, of the paths of interleaved_laps.h. A layer of
// chunk c on device j lies behind the last chunk of j devices, and so on; the passes that come in
// turn with others belong to the path of device j alone.
std::vector<UnevenBound::LapPath> UnevenBound::LapPathsOf(const DefinitionTimes& times,
                                                          const Question& question,
                                                          const Messages& messages) const {
  std::vector<LapPath> laps;
  const int chunk_count = question.fewest_virtual_stages;
  if (question.any_group_size || times.backward.empty() ||
      question.most_virtual_stages != chunk_count || device_count_ < 2) {
    return laps;
  }
  const double devices = device_count_;
  // A micro-batch goes from the first stage to the last.
  const double through = chunk_count * messages.lap - messages.back;
  if (!messages.are_slow) return laps;
  const int64_t group_count = question.micro_batch_count / device_count_;
  const auto groups = static_cast<double>(group_count);
  const auto alternating = static_cast<double>(AlternatingPasses::GroupsOf(group_count));
  const AlternatingPasses passes(device_count_, chunk_count);
  // To the first stage of a device, and from its last stage on, are the messages of all devices but
  // the one back to the first.
  const double of_laps =
      groups * (chunk_count - 1) * messages.lap + through + messages.lap - messages.back;
  for (const double backward_weight : kLapWeights) {
    LapPath lap = {.messages = of_laps, .counts = {}};
    for (int device = 0; device < device_count_; ++device) {
      double least = kInfinity;
      const double behind = (devices - 1.0 - device) / devices;
      const double share = device / devices;
      for (int chunk = 0; chunk < chunk_count; ++chunk) {
        const bool is_first = chunk == 0;
        const bool is_last = chunk + 1 == chunk_count;
        // How often the path of backward passes counts them in a lap, and that of forward passes.
        double backward_laps = 1.0;
        double forward_laps = 1.0;
        double backward_ends = 0.0;
        double forward_ends = 0.0;
        if (is_first) {
          backward_laps = share + 1.0;
          forward_laps = share + 1.0 / devices;
          backward_ends = behind;
          forward_ends = behind;
        } else if (is_last) {
          backward_laps = behind + 1.0 / devices;
          forward_laps = behind + 1.0;
          backward_ends = share;
          forward_ends = share;
        }
        const double forward_turns = alternating * passes.ForwardOf(chunk, device) / devices;
        const double backward_turns = alternating * passes.BackwardOf(chunk, device) / devices;
        const double of_forward = backward_weight * (1.0 + forward_turns) +
                                  (1.0 - backward_weight) * (groups * forward_laps + forward_ends);
        const double of_backward = backward_weight * (groups * backward_laps + backward_ends) +
                                   (1.0 - backward_weight) * (1.0 + backward_turns);
        for (size_t i = 0; i < counts_.size(); ++i) {
          if (counts_[i] == 0 || !(times.forward_backward[i] > 0.0)) continue;
          // Least times do not add up: both passes take so long at least, and either alone.
          const double both = std::min(of_forward, of_backward);
          const double alone = of_forward > of_backward ? (of_forward - both) * times.forward[i]
                                                        : (of_backward - both) * times.backward[i];
          least = std::min(least, both + alone / times.forward_backward[i]);
        }
      }
      lap.counts.push_back(least);
    }
    laps.push_back(std::move(lap));
  }
  return laps;
}

double UnevenBound::Bound(const DefinitionTimes& times, const Question& question,
                          double cutoff) const {
  if (!question.most_layers.empty()) {
    int64_t most = 0;
    for (const int layers : question.most_layers) most += layers;
    if (most < major_count_) return cutoff;
  }
  const Work work = WorkOf(times, question.fewest_virtual_stages);
  double low = Quick(times, question.micro_batch_count);
  if (!(low < cutoff)) return cutoff;
  const Messages messages = MessagesOf(times, question);
  const std::vector<LapPath> laps = LapPathsOf(times, question, messages);
  if (cutoff < kInfinity && !Allows(times, question, work, messages, laps, cutoff)) return cutoff;
  double high = low;
  for (int growth = 0; !Allows(times, question, work, messages, laps, high); ++growth) {
    // Not clamped to the cutoff, so that bounds below it do not depend on it.
    low = high;
    high *= kUnevenGrowth;
    if (growth == kUnevenGrowths) return cutoff;
  }
  for (int halving = 0; halving < kUnevenHalvings && low < high; ++halving) {
    const double middle = 0.5 * (low + high);
    (Allows(times, question, work, messages, laps, middle) ? high : low) = middle;
  }
  return std::min(low * kUnevenRounding, cutoff);
}

}  // namespace parplan
