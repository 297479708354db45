// What the devices of an interleaved pipeline do and keep, as sums over definitions.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LOADS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LOADS_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// Of one partition. O(layers).
class InterleavedLoads {
 public:
  // Layers of one definition on a device.
  struct Share {
    int definition = 0;
    // How many there are.
    double layers = 0.0;
    // The same, each as often as it has micro-batches in flight at one and the same moment.
    // The device keeps more at no other, if layers of all definitions keep alike.
    double in_flight = 0.0;
    // Layers of the device's first stage.
    double first = 0.0;
  };

  // Memory is that of the setting's micro-batches, steps are of `micro_batch_count`.
  //
  //   layer_counts   of each virtual stage, in the order of the model
  InterleavedLoads(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                   int64_t micro_batch_count);

  int device_count() const { return static_cast<int>(shares_.size()); }
  // Ascending by definition.
  const std::vector<Share>& shares(int device) const { return shares_[device]; }
  // The least seconds of messages to the device's first stage, one way.
  double messages(int device) const { return messages_[device]; }

  // Passes of a chain through all stages, both ways, by definition: the first micro-batch goes
  // forward through all; then the last device works until the last micro-batch begins its way
  // back, but for the P passes each way of every other chunk that are before and behind that;
  // then that one goes back through all.
  struct Passes {
    int definition = 0;
    double count = 0.0;
  };
  const std::vector<Passes>& through() const { return through_; }
  // The least seconds of its messages, both ways.
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
