#include "planner/planners/exact/interleaved/interleaved_paths.h"

#include <algorithm>

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
      last_(before_.size()),
      before_last_(before_.size()) {
  const int first_of_last = counts.stage_count() - device_count;
  for (int definition = 0; definition < definition_count_; ++definition) {
    for (int stage = 0; stage < first_of_last; ++stage) {
      before_last_[definition] += counts.of(stage, definition);
    }
  }
  for (int device = 0; device < device_count; ++device) {
    for (int definition = 0; definition < definition_count_; ++definition) {
      const size_t index = static_cast<size_t>(device) * definition_count_ + definition;
      last_[index] = counts.of(first_of_last + device, definition);
      if (device > 0) {
        const size_t in_front = index - definition_count_;
        before_last_[index] = before_last_[in_front] + last_[in_front];
      }
      if (device > 0) {
        before_[index] = before_[index - definition_count_] + counts.of(device - 1, definition);
      }
      for (int stage = device; stage < counts.stage_count(); stage += device_count) {
        owned_[index] += counts.of(stage, definition);
      }
    }
  }
}

double InterleavedPaths::BoundOfDevices(const DefinitionTimes& times, int64_t micro_batch_count,
                                        absl::Span<const double> sends) const {
  const auto micro_batches = static_cast<double>(micro_batch_count);
  double first_sync = 0.0;
  for (int i = 0; i < definition_count_; ++i) first_sync += owned_[i] * times.sync[i];
  double bound = 0.0;
  // Messages to the device's first stage.
  double messages = 0.0;
  for (int device = 0; device < device_count_; ++device) {
    const double* before = &before_[static_cast<size_t>(device) * definition_count_];
    const double* owned = &owned_[static_cast<size_t>(device) * definition_count_];
    if (device > 0 && !sends.empty()) messages += sends[device - 1];
    double entry = messages;
    double entry_and_exit = 2.0 * messages;
    double work = 0.0;
    double sync = 0.0;
    for (int i = 0; i < definition_count_; ++i) {
      entry += before[i] * times.forward[i];
      entry_and_exit += before[i] * times.forward_backward[i];
      work += owned[i] * times.forward_backward[i];
      sync += owned[i] * times.sync[i];
    }
    work *= micro_batches;
    bound = std::max({bound, entry + work + sync, entry_and_exit + work + first_sync});
  }
  return bound * (1.0 - kPathRounding);
}

double InterleavedPaths::Bound(const DefinitionTimes& times, int64_t micro_batch_count,
                               absl::Span<const double> sends, absl::Span<const double> last_sends,
                               double all_sends) const {
  const auto micro_batches = static_cast<double>(micro_batch_count);
  double first_sync = 0.0;
  for (int i = 0; i < definition_count_; ++i) first_sync += owned_[i] * times.sync[i];
  double longest = 0.0;
  // Messages to the device's last stage.
  double messages = all_sends;
  for (int device = device_count_ - 1; device >= 0; --device) {
    if (device + 1 < device_count_ && !last_sends.empty()) messages -= last_sends[device];
    const size_t begin = static_cast<size_t>(device) * definition_count_;
    double through = 2.0 * messages;
    for (int i = 0; i < definition_count_; ++i) {
      const double owned = owned_[begin + i];
      const double last = last_[begin + i];
      const double passes =
          before_last_[begin + i] + micro_batches * owned - device_count_ * (owned - last);
      through += passes * times.forward_backward[i];
    }
    longest = std::max(longest, through);
    // Without messages by device only the last one's are known.
    if (last_sends.empty()) messages = 0.0;
  }
  return std::max(BoundOfDevices(times, micro_batch_count, sends),
                  (longest + first_sync) * (1.0 - kPathRounding));
}

}  // namespace parplan
