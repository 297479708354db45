// The order in which each device of a pipeline does its passes.
//
// Virtual stage j of the model is on device j mod P, P being the pipeline degree; with one stage
// per device, stages and devices coincide. The orders, with V virtual stages per device and m
// micro-batches:
//
//   1F1B         min(P - 1 - device, m) forward passes, then one forward and one backward pass
//                in turn, then the remaining backward passes (PipeDream-flush; Narayanan et
//                al., SC'21, section 2.2.1).
//   GPipe        All forward passes, then all backward passes, each in the order of
//                micro-batches.
//   interleaved  The order of Megatron Core's schedules.py. Forward passes come in groups of G
//                micro-batches, G being P or more; each group goes through all virtual stages of
//                the device before the next group begins. Backward passes do the same with the
//                virtual stages reversed. First come 2 (P - 1 - device) + (V - 1) G forward
//                passes, or all of them if there are fewer; then one forward and one backward
//                pass in turn; then the remaining backward passes. The last group has the m mod G
//                micro-batches that are left, if any. Megatron refuses fewer than P of them; here
//                the order is that for P, without the micro-batches that do not exist.
//   ZB-H1        The order of 1F1B, whose backward passes are those of the gradients of inputs. The
//                gradients of weights follow `device` backward passes later: right after backward
//                pass k comes the weight pass of micro-batch k - device, and the last `device` of
//                them, or m if there are fewer, end the step. So each device has at most P
//                micro-batches between their forward and their weight pass, as the first device of
//                1F1B has (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, ZB-H1).
//
// One device is no pipeline: under every schedule it takes each micro-batch forward through all its
// stages and back, then the next.
//
// The executor runs this order, and `PipelineEvents` (planner/cost/pipeline_schedule.h) times it.
// `StepTime` there evaluates it without listing passes, `WorstMoment` (in_flight.h) counts
// micro-batches in it, and planner/check/schedule_simulation.h states it once more on its own to
// check the others; tests hold all of them equal.

#ifndef PARPLAN_PLANNER_MODEL_PASS_ORDER_H_
#define PARPLAN_PLANNER_MODEL_PASS_ORDER_H_

#include <cstdint>
#include <vector>

#include "planner/model/schedule_traits.h"

namespace parplan {

// The work of one pass.
enum class PassKind {
  kForward,
  // Gradients of inputs and weights.
  kBackward,
  // The two halves of a backward pass under `BackwardSplit::kInputsThenWeights`. The weights
  // need no message, so they may wait until the device would be idle.
  kBackwardInputs,
  kBackwardWeights,
};

// One pass of one virtual stage over one micro-batch.
struct PipelinePass {
  PassKind kind = PassKind::kForward;
  // Stage of the plan, counted from 0 over the whole model, and micro-batch, counted from 0.
  int stage_index = 0;
  int64_t micro_batch = 0;
  // Time at which the pass runs, counted in ticks: if all devices work in lock-step and a tick is
  // long enough for a forward and a backward pass, a pass waits only for passes of earlier ticks,
  // and a message is sent and received at the end of its sender's tick. In groups of more than P
  // micro-batches, messages between the last device and the first wait there for their turn. Within
  // a tick a device goes forward before it goes backward. A device may have no pass in some ticks.
  // A weight pass is in the tick of the pass before it.
  int64_t tick = 0;

  // Returns whether it is a backward pass, whole or either half. Of two halves only
  // `kBackwardInputs` sends a message, so senders must read `kind`.
  bool is_backward() const { return kind != PassKind::kForward; }
  friend bool operator==(const PipelinePass&, const PipelinePass&) = default;
};

// The parameters that the order of passes depends on. All counts are positive.
// `virtual_stage_count` is above 1 only if the schedule has virtual stages, or on one device.
struct PipelineShape {
  Schedule schedule = kDefaultSchedule;
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int64_t micro_batch_count = 1;
  // `Plan::micro_batch_group_size`: 0, or one that `IsGroupSize` allows. Ignored unless the
  // schedule is interleaved and there are several virtual stages.
  int64_t micro_batch_group_size = 0;
};

// Returns whether interleaved 1F1B takes `micro_batch_count` in groups of `group_size`, from the
// pipeline degree up to all of them: the last group is whole or has as many micro-batches as the
// pipeline has devices, or more (schedules.py). Plans state sizes above the degree only.
bool IsGroupSize(int64_t group_size, int pipeline_parallel_degree, int64_t micro_batch_count);

// Lists the passes of device `device`, from 0, in the order in which it does them: 2 V m passes, or
// 3 m if backward passes have two parts. O(V m) time and memory. REQUIRES: a shape as above, and
// `device` from 0 to below the pipeline degree; aborts otherwise.
std::vector<PipelinePass> PassOrder(const PipelineShape& shape, int device);

// Returns the number of warm-up passes: forward passes that the device does before it begins to do
// one forward and one backward pass in turn (under GPipe: all of them). Counts the micro-batches
// that a last group of fewer than P lacks, and may exceed the forward passes there are; the device
// then does all of these first. V - 1 on one device. O(1). REQUIRES: what `PassOrder` does; aborts
// otherwise.
int64_t WarmUpPassCount(const PipelineShape& shape, int device);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PASS_ORDER_H_
