// Measurements of one rank over some steps. `StepMeter` makes windows; `parplan-exec` records,
// reports and leaves them.

#ifndef PARPLAN_EXECUTOR_APPLY_STEP_WINDOW_H_
#define PARPLAN_EXECUTOR_APPLY_STEP_WINDOW_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// Use of a rank's time; `Phase` of execution.proto, in its order. In passes over a layer, waits in
// communicators count for the purpose of their group, and only the rest for the pass (forward,
// backward or recompute). Resharding, pipeline, gradient sync and optimizer have all the time of
// these phases of the trainer (TrainerPhase), with waits and copies. Idle is what remains. The
// executor trains no experts, so kExpertParallel has no time.
enum class StepPhase {
  kForward,
  kBackward,
  kRecompute,
  kTensorParallel,
  kShardedDataParallel,
  kContextParallel,
  kExpertParallel,
  kResharding,
  kPipeline,
  kGradientSync,
  kOptimizer,
  kIdle,
};
inline constexpr int kStepPhaseCount = 12;

// A kind of collective that the rank called and waited for at once, timed from call to return, with
// the wait for ranks that come later.
struct CollectiveSamples {
  Operation operation = Operation::kAllReduce;
  // Number of ranks, and the distance from one to the next.
  int participant_count = 2;
  int rank_stride = 1;
  // Bytes, as nccl-tests counts them (WholeBytes).
  int64_t message_size = 0;
  // Median and 90th percentile of the times, both above 0.
  absl::Duration median;
  absl::Duration p90;
  // Number of the times that were kept, at most 256.
  int sample_count = 0;
  friend bool operator==(const CollectiveSamples&, const CollectiveSamples&) = default;
};

// The measurements of one rank over consecutive steps.
struct StepWindow {
  // Rank of the job.
  int rank = 0;
  // The first step of the window, counted from 0 over the job's steps under all plans.
  int64_t first_step = 0;
  // Number of steps, at least 1.
  int step_count = 0;
  // Median of the times of these steps, on an asynchronous device (StepMeter) without the first one
  // unless it is the only one.
  absl::Duration median_step;
  // [StepPhase] time in one step: medians over the steps, which need not add up to that of the
  // step; on an asynchronous device those of the first step alone.
  std::array<absl::Duration, kStepPhaseCount> phases = {};
  // Arrays in use at the moment when their sum was highest.
  ArrayUsage memory_at_peak;
  // Memory that the device holds for the process in addition to arrays; 0 if it is not known.
  Bytes context_memory;
  // Ordered by operation, participants, stride and size.
  std::vector<CollectiveSamples> collectives;

  // Returns the time of a phase in one step.
  absl::Duration operator[](StepPhase phase) const { return phases[static_cast<int>(phase)]; }
  // Returns the memory that the device held at most for this rank: arrays, and what is beside them
  // if that is known.
  Bytes peak_memory() const { return memory_at_peak.Total() + context_memory; }
};

// Returns the name in messages and JSON, for example `tensor_parallel`.
std::string StepPhaseName(StepPhase phase);

// Converts a window to the message that servers take; phases and memory items of 0 are left out.
v1::MeasuredWindow WindowToProto(const StepWindow& window);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STEP_WINDOW_H_
