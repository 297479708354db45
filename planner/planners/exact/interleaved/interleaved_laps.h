// Paths around the ring of devices of an interleaved pipeline, which count messages once a group.
//
// Where messages take long, a device waits in every group of micro-batches, not only at the ends of
// the step. Let there be P devices with V chunks each, and G groups of P micro-batches. The
// backward pass of the first micro-batch of a group comes to a device in the last chunk, and goes
// V - 1 times around the ring until it is in the device's first chunk. Then the device runs the P
// backward passes of the group there, in turn with P forward passes, and in its order the next one
// is the first backward pass of the next group in the last chunk. So a path goes through all
// groups: forward with the first micro-batch through all stages, back to the device, G times
// (V - 1 laps with (V - 1) P messages, then the first chunk), and out to the first device. Forward
// passes have the same path in the other direction: in through the first chunks, G times (V - 1
// laps, then P passes of the last chunk in turn with P backward passes), out through the last
// chunks, and back through all stages.
//
// Passes alternate between the first backward pass of a device and its last forward pass, so in all
// groups but two. Which chunks they belong to follows from how many forward passes come before the
// first backward pass: (V - 1) P + 2 (P - 1 - d) of device d, and one more (pass_order.h).
//
// Used by interleaved_paths.h for given partitions and by uneven_bound.h for all.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LAPS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LAPS_H_

#include <cstdint>
#include <vector>

namespace parplan {

// Messages are slow if those of two laps take at least this part of a micro-batch's forward pass.
// With faster ones, devices hardly wait for them in the middle of a step, and bounds leave out laps
// and which message goes between nodes: closer bounds would only reorder the plans that are
// simulated, of which there are few. Not measured for other values.
inline constexpr double kSlowMessages = 0.25;

// Returns whether the messages of a lap, in seconds, are slow beside all forward passes.
inline bool AreSlowMessages(double lap, double forward) {
  return 2.0 * lap >= kSlowMessages * forward;
}

// The passes of each chunk that come in turn with those of another direction. Immutable.
class AlternatingPasses {
 public:
  // REQUIRES, unchecked: `device_count` and `virtual_stage_count` are at least 2.
  AlternatingPasses(int device_count, int virtual_stage_count)
      : device_count_(device_count), virtual_stage_count_(virtual_stage_count) {}

  // Returns the number of forward passes of `chunk` among the `device_count` ones that a device
  // runs after the first backward pass of a group in its first chunk.
  int ForwardOf(int chunk, int device) const;
  // Returns the number of backward passes of `chunk` among the `device_count` ones that a device
  // runs after the first forward pass of a group in its last chunk.
  int BackwardOf(int chunk, int device) const;

  // Returns the number of groups in which passes alternate for sure.
  static int64_t GroupsOf(int64_t group_count) { return group_count > 2 ? group_count - 2 : 0; }

 private:
  // Returns how many of the `device_count` passes from the one at `offset` are in the part of a
  // group's passes with this index, where the passes of a group repeat.
  int Within(int part, int offset) const;

  int device_count_;
  int virtual_stage_count_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_LAPS_H_
