// Lower bounds of plans with block recomputation, over all partitions (block_choice.h).
//
// A partition enters by the number of layers of each device alone. Let w be the work of a device
// for a micro-batch. One path goes into the device, through all its passes, and through its
// synchronisation; another one, the mean over all virtual stages, goes forward with the first
// micro-batch to a stage, through the work of its device, and back with the last one
// (uneven_bound.h). Memory says how many layers a device holds without recomputation, and how many
// of more layers it must recompute at least. The least step in which the devices can take all
// layers is the bound. Used by `SearchBlocks` and, for its memory alone, by smallest_memory.h.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a
// candidate is all plans of one batch size, pipeline degree, number of micro-batches and schedule;
// virtual stages are the several stages of one device; a partition is the number of layers of each
// stage; a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_BOUND_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/block_choice.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// The bound of one candidate and choice, with groups of as many micro-batches as devices if stages
// are interleaved. All steps are in seconds, without their overhead. The limit of passes is not
// asked. Does not refer to its arguments afterwards.
class BlockBound {
 public:
  // Devices have from `fewest_virtual_stages` to `most_virtual_stages` virtual stages. If that is
  // at most one, the schedule is the setting's; with more, it is interleaved, and `setting` is one
  // of 1F1B. REQUIRES, unchecked: 1 <= fewest <= most; `choice` is one of `BlockChoicesOf` for the
  // table of `setting`; interleaved, the micro-batches are a multiple of the devices or, if only
  // memory is asked, which is whether `Bound` is infinite, no fewer than these.
  BlockBound(const PipelineSetting& setting, const BlockChoice& choice, int fewest_virtual_stages,
             int most_virtual_stages);

  // Returns a lower bound of the step, whatever the number of recomputed layers, or `cutoff`, which
  // may be infinite, if that is less. Infinite, even if `cutoff` is not, if memory never suffices.
  double Bound(double cutoff) const;

  // Returns whether a step below `cutoff`, which may be infinite, is possible in which each virtual
  // stage recomputes its first `count` layers, of those that can be recomputed, or all if it has
  // fewer, and at least one stage has more. False is a proof that none is; true is not one that
  // there is such a plan. REQUIRES, unchecked: `count` is at least 1.
  bool AllowsCount(int count, double cutoff) const;

 private:
  // The layers of the definition that most layers have (the major one) on a device. The least work
  // to have so many is convex and piecewise linear: the first `whole_layers` are not recomputed,
  // and each further one means `recomputed_share` recomputed ones.
  struct Device {
    // Seconds of a step in front of the device's first pass, and of its other layers.
    double entry = 0.0;
    double fixed = 0.0;
    double room = 0.0;
    double whole_layers = 0.0;
    double most_layers = 0.0;
    double recomputed_share = 0.0;
    // Bytes of a layer without recomputation, and with it.
    double whole_bytes = 0.0;
    double recomputed_bytes = 0.0;
    // Times that its work counts on the mean path.
    double weight = 0.0;
  };
  // The least cost of some layers, in order of increasing cost per layer.
  struct Segment {
    double cost = 0.0;
    double layers = 0.0;
  };

  bool Allows(double step) const;
  // Returns the least cost of all layers of the major definition; infinite if there is no room.
  double Place(std::vector<Segment>& segments) const;

  std::vector<Device> devices_;
  double micro_batch_count_ = 1.0;
  int most_virtual_stages_ = 1;
  // Whether all layers but the first and the last are of the major definition; then devices take
  // whole layers.
  bool is_uniform_ = true;
  double layer_count_ = 0.0;
  // Layers of other definitions that are recomputed too.
  int other_recomputed_ = 0;
  // Seconds of a layer in a step, and of what recomputation adds; on a device and, without
  // synchronisation, for one micro-batch.
  double layer_ = 0.0;
  double recomputation_ = 0.0;
  double layer_pass_ = 0.0;
  double recomputation_pass_ = 0.0;
  // Seconds of the layers of other definitions that may be on any device, and the least of the mean
  // path beside the major definition.
  double others_ = 0.0;
  double mean_fixed_ = 0.0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_BLOCK_BOUND_H_
