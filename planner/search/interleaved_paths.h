// Lower bounds of interleaved pipelines, for plans whose layers of one definition all
// cost the same.

#ifndef PARPLAN_PLANNER_SEARCH_INTERLEAVED_PATHS_H_
#define PARPLAN_PLANNER_SEARCH_INTERLEAVED_PATHS_H_

#include <cstdint>
#include <vector>

#include "planner/model/model_spec.h"

namespace parplan {

// Layers of each virtual stage by definition.
class StageCounts {
 public:
  // `layer_counts`: of each virtual stage, in the order of the model.
  StageCounts(const ModelSpec& model, const std::vector<int>& layer_counts);

  int definition_count() const { return definition_count_; }
  int stage_count() const { return static_cast<int>(counts_.size()) / definition_count_; }
  int of(int stage, int definition) const {
    return counts_[stage * definition_count_ + definition];
  }

 private:
  int definition_count_;
  std::vector<int> counts_;
};

// Seconds of one layer of each definition: forward, forward and backward of a micro-batch,
// and synchronisation of a step.
struct DefinitionTimes {
  std::vector<double> forward;
  std::vector<double> both;
  std::vector<double> sync;
};

// Paths through an interleaved pipeline: a device begins when the first micro-batch has
// come through the stages before its first one, then works off all its chunks of all
// micro-batches, the last pass of which is the backward pass of its first chunk; then it
// synchronises, or the last gradient goes on to device 0, which does. Each length is a sum
// over definitions, so least times of definitions make a bound for all their strategies.
class InterleavedPaths {
 public:
  // `sends`: the least seconds of a message from each device to the next, one way.
  InterleavedPaths(const StageCounts& counts, int device_count, int64_t micro_batch_count,
                   const std::vector<double>& sends);

  // No schedule of such times ends earlier. O(devices * definitions).
  double Bound(const DefinitionTimes& times) const;

 private:
  int definition_count_;
  int device_count_;
  double micro_batches_;
  // [device][definition] layers of the stages before the device's first one, and of all
  // its stages.
  std::vector<double> before_;
  std::vector<double> owned_;
  // [device] messages to its first stage.
  std::vector<double> messages_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_INTERLEAVED_PATHS_H_
