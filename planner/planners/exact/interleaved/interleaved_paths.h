// Lower bounds of interleaved pipelines for plans in which all layers of a definition cost the
// same. Used by the bounds of this folder.
//
// Words (docs/glossary.md): virtual stages are the several stages of one device; a definition is
// the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Number of layers of each definition in each virtual stage.
class StageCounts {
 public:
  // `layer_counts` is [virtual stage], in the order of the model. REQUIRES, unchecked: they add up
  // to the layers of `model`.
  StageCounts(const ModelSpec& model, const std::vector<int>& layer_counts);
  // `counts` is [virtual stage * definition_count + definition]. REQUIRES, unchecked:
  // `definition_count` is above 0 and divides its size.
  StageCounts(int definition_count, std::vector<int> counts)
      : definition_count_(definition_count), counts_(std::move(counts)) {}

  // Return the numbers of definitions and of virtual stages, and the layers of a definition in a
  // stage; indices count from 0 and are not checked.
  int definition_count() const { return definition_count_; }
  int stage_count() const { return static_cast<int>(counts_.size()) / definition_count_; }
  int of(int stage, int definition) const {
    return counts_[stage * definition_count_ + definition];
  }

 private:
  int definition_count_;
  std::vector<int> counts_;
};

// [definition] seconds of one layer: forward pass, both passes and backward pass of a micro-batch,
// and synchronisation of a step. Least times are least each by itself, so that the first two do not
// give the third. Without the third, paths that need it are left out.
struct DefinitionTimes {
  std::vector<double> forward;
  std::vector<double> forward_backward;
  std::vector<double> sync;
  std::vector<double> backward;
};

// Critical paths through an interleaved pipeline. Immutable, so safe to use from any thread.
//
// One path per device: it begins when the first micro-batch has come through the stages before its
// first one, then runs all its chunks for all micro-batches, the last pass being the backward pass
// of its first chunk; then it synchronises, or the last gradient travels on to device 0, which
// synchronises. One more path per device: the first micro-batch goes forward through all stages
// before the device's last one; then the device works until the last micro-batch starts back from
// there, except for the `device_count` passes in each direction of every other chunk that come
// before or after; then that micro-batch goes back through all these stages. Where messages take
// long, two more per device go around the ring in every group (interleaved_laps.h). Each length is
// a sum over definitions, so the least times of definitions give a bound for all strategies.
class InterleavedPaths {
 public:
  // REQUIRES, unchecked: the number of stages is a multiple of `device_count`, which is above 0.
  // Keeps no reference.
  InterleavedPaths(const StageCounts& counts, int device_count);

  // Returns a lower bound of the step, in seconds and without its overhead, of any order of passes
  // that takes micro-batches in groups of the number of devices. Memory is not asked.
  // O(devices * definitions).
  //
  //  micro_batch_count   a multiple of the number of devices
  //  sends               [device] least seconds of a message from its first stage to the next,
  //                      one direction; the last device's is not read; empty means 0
  //  last_sends          [device] the same from its last stage, but for the last device; empty
  //                      means 0
  //  all_sends           the sum over all messages of a micro-batch, one direction
  double Bound(const DefinitionTimes& times, int64_t micro_batch_count,
               absl::Span<const double> sends, absl::Span<const double> last_sends,
               double all_sends) const;
  // Returns the same from the paths of devices alone, which hold for any number of micro-batches
  // and any size of groups.
  double BoundOfDevices(const DefinitionTimes& times, int64_t micro_batch_count,
                        absl::Span<const double> sends) const;

 private:
  // Messages of the paths through all stages: see `Bound`.
  struct Through {
    absl::Span<const double> last_sends;
    double all_sends = 0.0;
  };
  // Messages of the laps of a device.
  struct Laps {
    // Seconds of the messages in front of its first stage and of its last one.
    double first = 0.0;
    double last = 0.0;
    double all_sends = 0.0;
  };
  // Returns the longer one of the two paths of a device that go around the ring, without
  // synchronisation.
  double LongestLaps(const DefinitionTimes& times, int64_t micro_batch_count, int device,
                     const Laps& laps) const;
  // Returns the longest of the paths of devices and, with `through`, of those through all stages.
  double Longest(const DefinitionTimes& times, int64_t micro_batch_count,
                 absl::Span<const double> sends, const Through* through) const;

  int definition_count_;
  int device_count_;
  // [device][definition] layers of the stages before the device's first one (`before_`), of all its
  // stages (`owned_`), and of the stages before its last one less the passes of the device that the
  // path through all stages leaves out (`besides_`).
  std::vector<double> before_;
  std::vector<double> owned_;
  std::vector<double> besides_;
  // The layers of all stages, and [definition] of all.
  StageCounts counts_;
  std::vector<double> all_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_PATHS_H_
