// The end of a step, and the time of every pass in it.
//
// An exact recurrence over passes, not a formula: warm-up, steady state and cool-down follow from
// the order in which each device does its passes. planner/model/pass_order.h defines that order
// for every schedule. Virtual stage j of the model is on device j mod P, P being the pipeline
// degree. On one device nothing is sent.
//
//   ScheduleEvaluator evaluator;
//   const Seconds step = evaluator.StepTime({.schedule = Schedule::kGpipe}, stage_times, m);
//
// `PlanEvaluator` and the searches call `StepTime`; reports draw `PipelineEvents`.

#ifndef PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
#define PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/model/pass_order.h"
#include "planner/model/plan.h"

namespace parplan {

// The times of one virtual stage, per micro-batch. A pass includes all communication within the
// stage that nothing hides.
struct StageTimes {
  Seconds forward;
  Seconds backward;
  // Time of a message to the next stage of the model (activations), and of one from it
  // (gradients). Ignored for the last stage.
  Seconds send;
  // Once per step, after the stage's last backward pass.
  Seconds gradient_sync;
  // Part of `backward` that a schedule with split backward passes does in a weight pass of its own,
  // at most `backward`. Other schedules do not read it.
  Seconds backward_weights = {};
};

// The order of passes, and how messages and gradient synchronisation occupy devices.
struct PipelineRules {
  Schedule schedule = kDefaultSchedule;
  // Stages on each device; above 1 only if the schedule has virtual stages. `kInterleaved` with
  // one stage per device is 1F1B.
  int virtual_stage_count = 1;
  // See `Plan::micro_batch_group_size`.
  int64_t micro_batch_group_size = 0;
  // If off, a message leaves when its pass ends, takes its send time and occupies no device.
  //
  // If on, messages are Megatron-LM's fused exchanges without overlap
  // (send_forward_recv_backward and its kin). A message starts once its sender and its receiver
  // have both reached the exchange, and both wait until all messages of the exchange have
  // arrived; messages of one exchange travel at the same time. A device exchanges with the next
  // one after a forward pass and with the previous one after a backward pass; interleaved, with
  // both after each pair of passes.
  bool blocking_messages = false;
  // Only matters with blocking messages and one stage on each device. If on, the gradient of an
  // exchange leaves when its activation has arrived, as in DeepSpeed's instructions
  // (TrainSchedule).
  bool serial_messages = false;
  // Only matters if a device has several stages. If off, their gradients are synchronised one
  // after the other behind the device's last pass. If on, each synchronisation starts at its
  // stage's own last backward pass, while the device goes on working, one at a time.
  bool early_gradient_sync = false;
};

// Computes when steps end. It keeps its memory from call to call, so a call allocates nothing once
// the evaluator has seen as many stages. One thread at a time may use it.
class ScheduleEvaluator {
 public:
  // Returns the end of the step: the latest end of any device's passes and gradient
  // synchronisation. `stages` are in the order of the model, P * V of them.
  //
  // O(stages + group size) memory, and O(stages * micro-batches) time until the pipeline is
  // periodic, which a max-plus recurrence always becomes: once every device has advanced by the
  // same time over some number of rounds, the whole periods that are left are skipped. The result
  // differs from that of `PipelineEvents` by less than 1e-12 of the step and depends only on the
  // arguments.
  //
  // REQUIRES: V (`virtual_stage_count`) divides the number of stages, which is above 0, as is
  // micro_batch_count; V is 1 unless the schedule has virtual stages; the size of groups is 0 or
  // one that `IsGroupSize` allows; messages do not block if the schedule splits backward passes.
  // Aborts otherwise, but for the size of groups where V or P is 1, which is not read, and below P,
  // which counts as 0. With 0, groups are of P, and the last one may be smaller.
  Seconds StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                   int64_t micro_batch_count);

 private:
  void Load(absl::Span<const StageTimes> stages, int device_count);
  void RunAlone(int64_t micro_batch_count);
  void RunGpipe(int64_t micro_batch_count);
  void RunBlockingFlow(int64_t micro_batch_count, bool is_backward);
  void RunOneForwardOneBackward(int64_t micro_batch_count);
  void RunZeroBubble(int64_t micro_batch_count);
  void RunBlockingOneForwardOneBackward(bool serial, int64_t micro_batch_count);
  template <bool kBlocking, bool kLargerGroups>
  void RunInterleaved(int virtual_stage_count, int64_t group_size, int64_t micro_batch_count);

  Seconds EndOfSynchronisation(const PipelineRules& rules,
                               absl::Span<const StageTimes> stages) const;

  int device_count_ = 0;
  // [virtual stage], s.
  std::vector<double> forward_;
  std::vector<double> backward_;
  // The part of `backward_` in weight passes.
  std::vector<double> weights_;
  std::vector<double> send_after_;
  std::vector<double> send_before_;
  std::vector<double> last_backward_end_;
  // The state: when each device is free; with split backward passes, when its last one ended; and,
  // interleaved, when messages to it arrive, those that wait for their turn included. `snapshot_`
  // is the state at an earlier round, to find periods.
  std::vector<double> free_;
  std::vector<double> snapshot_;
  // Interleaved: times of the passes that devices are doing.
  std::vector<double> rows_;
};

// Returns what `ScheduleEvaluator::StepTime` does, for a single call.
Seconds StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count);
// Returns the same with one stage per device and messages that occupy no device.
Seconds StepTime(Schedule schedule, absl::Span<const StageTimes> stages, int64_t micro_batch_count);

// One pass of one virtual stage over one micro-batch, with its times.
struct PipelineEvent {
  // Virtual stage in the order of the model, and micro-batch, both from 0.
  int stage_index = 0;
  int64_t micro_batch_index = 0;
  bool is_backward = false;
  // Times since the step began.
  Seconds start;
  Seconds end;
  // More than `is_backward`: whether a backward pass is whole, or which part of it this is.
  PassKind kind = PassKind::kForward;
};

// Lists every pass of the step, sorted by stage and start; neither messages nor gradient
// synchronisation, so the last event may end before the step does. REQUIRES: what `StepTime` does;
// aborts otherwise, but does not check that V is above 0 and divides the number of stages. O(stages
// * micro-batches) time and memory.
std::vector<PipelineEvent> PipelineEvents(const PipelineRules& rules,
                                          absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count);
std::vector<PipelineEvent> PipelineEvents(Schedule schedule, absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
