#include "planner/planners/exact/interleaved/interleaved_paths.h"

#include <algorithm>

#include "planner/planners/exact/interleaved/interleaved_laps.h"

namespace parplan {
namespace {

// Relative rounding error of sums in another order.
constexpr double kPathRounding = 1e-12;

}  // namespace

StageCounts::StageCounts(const ModelSpec& model, const std::vector<int>& layer_counts)
    : definition_count_(static_cast<int>(model.layer_definitions().size())),
      counts_(layer_counts.size() * definition_count_) {
  int layer = 0;
  for (size_t stage = 0; stage < layer_counts.size(); ++stage) {
    for (int i = 0; i < layer_counts[stage]; ++i, ++layer) {
      ++counts_[stage * definition_count_ + model.definition_of_layer()[layer]];
    }
  }
}

InterleavedPaths::InterleavedPaths(const StageCounts& counts, int device_count)
    : definition_count_(counts.definition_count()),
      device_count_(device_count),
      before_(static_cast<size_t>(device_count) * definition_count_),
      owned_(before_.size()),
      besides_(before_.size()),
      counts_(counts),
      all_(definition_count_) {
  for (int stage = 0; stage < counts.stage_count(); ++stage) {
    for (int i = 0; i < definition_count_; ++i) all_[i] += counts.of(stage, i);
  }
  const int first_of_last = counts.stage_count() - device_count;
  for (int definition = 0; definition < definition_count_; ++definition) {
    // Layers of the stages before the device's last one.
    double before_last = 0.0;
    for (int stage = 0; stage < first_of_last; ++stage) before_last += counts.of(stage, definition);
    for (int device = 0; device < device_count; ++device) {
      const size_t index = static_cast<size_t>(device) * definition_count_ + definition;
      if (device > 0) {
        before_[index] = before_[index - definition_count_] + counts.of(device - 1, definition);
      }
      for (int stage = device; stage < counts.stage_count(); stage += device_count) {
        owned_[index] += counts.of(stage, definition);
      }
      const double last = counts.of(first_of_last + device, definition);
      besides_[index] = before_last - device_count * (owned_[index] - last);
      before_last += last;
    }
  }
}

double InterleavedPaths::BoundOfDevices(const DefinitionTimes& times, int64_t micro_batch_count,
                                        absl::Span<const double> sends) const {
  return Longest(times, micro_batch_count, sends, nullptr);
}

double InterleavedPaths::Bound(const DefinitionTimes& times, int64_t micro_batch_count,
                               absl::Span<const double> sends, absl::Span<const double> last_sends,
                               double all_sends) const {
  const Through through = {last_sends, all_sends};
  return Longest(times, micro_batch_count, sends, &through);
}

double InterleavedPaths::LongestLaps(const DefinitionTimes& times, int64_t micro_batch_count,
                                     int device, const Laps& laps) const {
  const int chunk_count = counts_.stage_count() / device_count_;
  const int64_t group_count = micro_batch_count / device_count_;
  const auto groups = static_cast<double>(group_count);
  const auto alternating = static_cast<double>(AlternatingPasses::GroupsOf(group_count));
  const AlternatingPasses passes(device_count_, chunk_count);
  const int last_stage = counts_.stage_count() - device_count_ + device;
  const double devices = device_count_;
  const double messages = laps.all_sends + laps.first + (laps.all_sends - laps.last) +
                          groups * (laps.last - laps.first);
  double forward_laps = messages;
  double backward_laps = messages;
  for (int i = 0; i < definition_count_; ++i) {
    // Layers in front of the device's first stage, between it and its last one, and behind that.
    double before = 0.0;
    double between = 0.0;
    double after = 0.0;
    double forward_turns = 0.0;
    double backward_turns = 0.0;
    for (int stage = 0; stage < counts_.stage_count(); ++stage) {
      const double layers = counts_.of(stage, i);
      if (stage < device) before += layers;
      if (stage > device && stage < last_stage) between += layers;
      if (stage > last_stage) after += layers;
      if (stage % device_count_ != device) continue;
      forward_turns += passes.ForwardOf(stage / device_count_, device) * layers;
      backward_turns += passes.BackwardOf(stage / device_count_, device) * layers;
    }
    const double first = counts_.of(device, i);
    const double last = counts_.of(last_stage, i);
    backward_laps +=
        times.forward[i] * (all_[i] + alternating * forward_turns) +
        times.backward[i] * (after + groups * (last + between + devices * first) + before);
    forward_laps +=
        times.forward[i] * (before + groups * (first + between + devices * last) + after) +
        times.backward[i] * (all_[i] + alternating * backward_turns);
  }
  return std::max(forward_laps, backward_laps);
}

double InterleavedPaths::Longest(const DefinitionTimes& times, int64_t micro_batch_count,
                                 absl::Span<const double> sends, const Through* through) const {
  const auto micro_batches = static_cast<double>(micro_batch_count);
  double first_sync = 0.0;
  for (int i = 0; i < definition_count_; ++i) first_sync += owned_[i] * times.sync[i];
  double bound = 0.0;
  // Messages to the device's first stage and to its last one. Without those by device only the last
  // device's are known.
  double messages = 0.0;
  double last_messages = 0.0;
  if (through != nullptr && !through->last_sends.empty()) {
    last_messages = through->all_sends;
    for (const double send : through->last_sends) last_messages -= send;
  }
  bool asks_laps = through != nullptr && !through->last_sends.empty() && !sends.empty() &&
                   !times.backward.empty() && counts_.stage_count() > device_count_;
  if (asks_laps) {
    double forward = 0.0;
    for (int i = 0; i < definition_count_; ++i) forward += all_[i] * times.forward[i];
    const double laps = static_cast<double>(counts_.stage_count()) / device_count_;
    asks_laps = AreSlowMessages(through->all_sends / laps, forward);
  }
  for (int device = 0; device < device_count_; ++device) {
    const size_t begin = static_cast<size_t>(device) * definition_count_;
    const double* before = &before_[begin];
    const double* owned = &owned_[begin];
    const double* besides = &besides_[begin];
    if (device > 0 && !sends.empty()) messages += sends[device - 1];
    double entry = messages;
    double entry_and_exit = 2.0 * messages;
    double work = 0.0;
    double sync = 0.0;
    double through_others = 0.0;
    for (int i = 0; i < definition_count_; ++i) {
      entry += before[i] * times.forward[i];
      entry_and_exit += before[i] * times.forward_backward[i];
      work += owned[i] * times.forward_backward[i];
      through_others += besides[i] * times.forward_backward[i];
      sync += owned[i] * times.sync[i];
    }
    work *= micro_batches;
    bound = std::max({bound, entry + work + sync, entry_and_exit + work + first_sync});
    if (through == nullptr) continue;
    if (device + 1 == device_count_) {
      last_messages = through->all_sends;
    } else if (device > 0 && !through->last_sends.empty()) {
      last_messages += through->last_sends[device - 1];
    }
    bound = std::max(bound, 2.0 * last_messages + through_others + work + first_sync);
    if (!asks_laps) continue;
    const Laps laps = {messages, last_messages, through->all_sends};
    bound = std::max(bound, LongestLaps(times, micro_batch_count, device, laps) + first_sync);
  }
  return bound * (1.0 - kPathRounding);
}

}  // namespace parplan
