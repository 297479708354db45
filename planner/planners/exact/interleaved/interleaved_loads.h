// The work and memory of each device of an interleaved pipeline, as sums over definitions. Used by
// `InterleavedRelaxation`.
//
// Words (docs/glossary.md): micro-batches in flight have done their forward pass and not yet their
// backward pass; a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LOADS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LOADS_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// The loads of one partition. O(layers) to compute.
class InterleavedLoads {
 public:
  // The layers of one definition on a device.
  struct Share {
    int definition = 0;
    // Number of layers.
    double layers = 0.0;
    // Sum over the layers of the micro-batches each has in flight, at the moment when the device
    // keeps most (if layers of all definitions keep alike).
    double in_flight = 0.0;
    // Number of layers in the device's first stage.
    double first = 0.0;
  };

  // Memory is that of the setting's micro-batches, in groups of as many as there are devices; steps
  // are those of `micro_batch_count`.
  //
  //  layer_counts   layers of each virtual stage, in the order of the model
  //
  // REQUIRES, unchecked: the setting is one of 1F1B; the stages are a multiple of its depth and
  // have all layers together; both numbers of micro-batches are multiples of the depth. Keeps no
  // reference.
  InterleavedLoads(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                   int64_t micro_batch_count);

  // Returns the number of devices, which is the pipeline degree.
  int device_count() const { return static_cast<int>(shares_.size()); }
  // Returns the shares of a device, from 0, ascending by definition; only definitions that it has
  // layers of.
  const std::vector<Share>& shares(int device) const { return shares_[device]; }
  // Returns the least seconds of all messages from the model's first stage up to the device's first
  // stage, one direction; 0 for device 0.
  double messages(int device) const { return messages_[device]; }

  // The passes of layers of one definition on a path through all stages. The first micro-batch goes
  // forward through all stages; then the last device works until the last micro-batch starts back,
  // except for the P passes in each direction of every other chunk that come before or after; then
  // the last micro-batch goes back through all stages.
  struct Passes {
    int definition = 0;
    // Sum over the layers; a forward and a backward pass count as one.
    double count = 0.0;
  };
  // Returns those of all definitions that layers have, ascending.
  const std::vector<Passes>& through() const { return through_; }
  // Returns the least seconds of the messages on that path, in both directions.
  double through_messages() const { return through_messages_; }

 private:
  void AddThrough(const PipelineSetting& setting, const std::vector<int>& begins,
                  int64_t micro_batch_count);

  std::vector<std::vector<Share>> shares_;
  std::vector<double> messages_;
  std::vector<Passes> through_;
  double through_messages_ = 0.0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LOADS_H_
