// Lower bounds of interleaved pipelines, for plans whose layers of one definition all
// cost the same.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
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

// Paths through an interleaved pipeline. A device begins when the first micro-batch has
// come through the stages before its first one, then works off all its chunks of all
// micro-batches, the last pass of which is the backward pass of its first chunk; then it
// synchronises, or the last gradient goes on to device 0, which does. Or the first
// micro-batch goes forward through all stages; then the last device works until the last
// micro-batch begins its way back, all but the P passes each way of every other chunk that
// are before and behind that; then that micro-batch goes back through all stages. Each
// length is a sum over definitions, so least times of definitions make a bound for all
// their strategies.
class InterleavedPaths {
 public:
  InterleavedPaths(const StageCounts& counts, int device_count);

  // No schedule of such times ends earlier. O(devices * definitions).
  //
  //   micro_batch_count   a multiple of the devices
  //   sends               the least seconds of a message from the first stage of each device
  //                       to the next, one way; empty: 0
  //   all_sends           the same of all messages of a micro-batch together
  double Bound(const DefinitionTimes& times, int64_t micro_batch_count,
               absl::Span<const double> sends, double all_sends) const;

 private:
  int definition_count_;
  int device_count_;
  // [device][definition] layers of the stages before the device's first one, and of all
  // its stages.
  std::vector<double> before_;
  std::vector<double> owned_;
  // [definition] layers of all stages, and of the last one.
  std::vector<double> all_;
  std::vector<double> last_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_
