// When every stage works on which micro-batch, and when the step ends.
//
// An exact recurrence over passes, not a formula: warm-up, steady state and
// cool-down are what comes of the order in which each device does its passes.
//
// Virtual stage j of the model is on device j mod P, P being the pipeline
// degree; with one stage a device, stages and devices are the same. The orders:
//
//   GPipe        all forward passes, then all backward passes, each in the order
//                of micro-batches.
//   1F1B         min(P - 1 - device, m) forward passes, then one forward and one
//                backward in turn, then the backward passes that are left
//                (PipeDream-flush; Narayanan et al., SC'21, section 2.2.1).
//   interleaved  as Megatron Core's schedules.py. Forward passes go by groups of P
//                micro-batches, in each through all chunks of the device; backward
//                passes likewise with the chunks reversed. The warm-up has
//                2 (P - 1 - device) + (V - 1) P passes, or all there are. Where P
//                does not divide m, Megatron refuses; here the last group's
//                missing micro-batches are left out of the same order.
//
// One device is no pipeline: it does one micro-batch after the other, and
// nothing is sent.

#ifndef PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
#define PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/model/plan.h"

namespace parplan {

// Times of one virtual stage, per micro-batch.
struct StageTimes {
  Seconds forward;
  Seconds backward;
  // To the next stage of the model (activations) and, on the way back, from it
  // (gradients). Not used of the last stage.
  Seconds send;
  // After the stage's last backward pass.
  Seconds gradient_sync;
};

// In which order passes are done, and what messages cost besides their way.
struct PipelineRules {
  Schedule schedule = kDefaultSchedule;
  // Stages on each device; above 1 only with `kInterleaved`, which is 1F1B at 1.
  int virtual_stage_count = 1;
  // Off: a message leaves when its pass ends, takes its send time, and occupies no
  // device.
  // On: Megatron-LM's fused exchanges without overlap (send_forward_recv_backward
  // and its kin). A message starts when its sender and its receiver have both come
  // to the exchange, and both wait until all messages of their exchange are
  // through; those of one exchange travel at the same time. A device exchanges
  // with the next after a forward and with the previous one after a backward pass;
  // interleaved, with both after each pair of forward and backward.
  bool blocking_messages = false;
  // Only where a device has several stages. Off: their gradients are synchronised
  // one after the other behind the device's last pass. On: each from the stage's
  // own last backward pass on, while the device works, one at a time.
  bool early_gradient_sync = false;
};

// Ends of steps. Keeps its memory from call to call: once it has seen as many
// stages, a call allocates nothing. Not to be used by two threads at once.
class ScheduleEvaluator {
 public:
  // When the step ends: the latest end of a device's passes and gradient
  // synchronisation. `stages` are in the order of the model, P * V of them.
  //
  // O(stages) state. Time O(stages * micro-batches) until the pipeline is
  // periodic, which a max-plus recurrence always becomes: once every device has
  // advanced by the same time over some number of rounds, the whole periods that
  // are left are skipped. Differs from event by event (`PipelineEvents`) by less
  // than 1e-12 of the step, and depends on nothing but its arguments.
  //
  // REQUIRES: V divides the number of stages, micro_batch_count > 0.
  Seconds StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                   int64_t micro_batch_count);

 private:
  void Load(absl::Span<const StageTimes> stages, int device_count);
  void RunAlone(int64_t micro_batch_count);
  void RunGpipe(int64_t micro_batch_count);
  void RunBlockingFlow(int64_t micro_batch_count, bool is_backward);
  void RunOneForwardOneBackward(int64_t micro_batch_count);
  void RunBlockingOneForwardOneBackward(int64_t micro_batch_count);
  template <bool kBlocking>
  void RunInterleaved(int virtual_stage_count, int64_t micro_batch_count);

  Seconds EndOfSynchronisation(const PipelineRules& rules,
                               absl::Span<const StageTimes> stages) const;

  int device_count_ = 0;
  // By virtual stage.
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> send_after_;
  std::vector<double> send_before_;
  std::vector<double> last_backward_end_;
  // When each device is free and, interleaved, when messages to it arrive; and the
  // same of an earlier moment, to find periods.
  std::vector<double> free_;
  std::vector<double> snapshot_;
  // Interleaved: times of the passes devices are at.
  std::vector<double> rows_;
};

// The same for one call.
Seconds StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count);
// One stage a device, messages that occupy no device.
Seconds StepTime(Schedule schedule, absl::Span<const StageTimes> stages, int64_t micro_batch_count);

// A pass of one virtual stage over one micro-batch.
struct PipelineEvent {
  int stage_index = 0;
  int64_t micro_batch_index = 0;
  bool is_backward = false;
  Seconds start;
  Seconds end;
};

// Every pass of the step, one by one, sorted by stage and start.
// O(stages * micro-batches) time and memory.
std::vector<PipelineEvent> PipelineEvents(const PipelineRules& rules,
                                          absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count);
std::vector<PipelineEvent> PipelineEvents(Schedule schedule, absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_PIPELINE_SCHEDULE_H_
