#include "planner/search/interleaved_paths.h"

#include <algorithm>

namespace parplan {
namespace {

// Rounding of sums in another order.
constexpr double kRounding = 1e-12;

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

InterleavedPaths::InterleavedPaths(const StageCounts& counts, int device_count,
                                   int64_t micro_batch_count, const std::vector<double>& sends)
    : definition_count_(counts.definition_count()),
      device_count_(device_count),
      micro_batches_(static_cast<double>(micro_batch_count)),
      before_(static_cast<size_t>(device_count) * definition_count_),
      owned_(before_.size()),
      messages_(device_count) {
  for (int device = 0; device < device_count; ++device) {
    if (device > 0) messages_[device] = messages_[device - 1] + sends[device - 1];
    for (int definition = 0; definition < definition_count_; ++definition) {
      const size_t index = static_cast<size_t>(device) * definition_count_ + definition;
      if (device > 0) {
        before_[index] = before_[index - definition_count_] + counts.of(device - 1, definition);
      }
      for (int stage = device; stage < counts.stage_count(); stage += device_count) {
        owned_[index] += counts.of(stage, definition);
      }
    }
  }
}

double InterleavedPaths::Bound(const DefinitionTimes& times) const {
  double first_sync = 0.0;
  for (int i = 0; i < definition_count_; ++i) first_sync += owned_[i] * times.sync[i];
  double bound = 0.0;
  for (int device = 0; device < device_count_; ++device) {
    const double* before = &before_[static_cast<size_t>(device) * definition_count_];
    const double* owned = &owned_[static_cast<size_t>(device) * definition_count_];
    double way_in = messages_[device];
    double way_in_and_out = 2.0 * messages_[device];
    double work = 0.0;
    double sync = 0.0;
    for (int i = 0; i < definition_count_; ++i) {
      way_in += before[i] * times.forward[i];
      way_in_and_out += before[i] * times.both[i];
      work += owned[i] * times.both[i];
      sync += owned[i] * times.sync[i];
    }
    work *= micro_batches_;
    bound = std::max({bound, way_in + work + sync, way_in_and_out + work + first_sync});
  }
  return bound * (1.0 - kRounding);
}

}  // namespace parplan
