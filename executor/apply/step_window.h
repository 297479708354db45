// What one rank measured over some steps.

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

// What a rank does with its time: `Phase` of execution.proto, in its order.
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

// A kind of collective the rank waited for at once, each time from its call to its return: the
// wait for ranks that come later is in it.
struct CollectiveSamples {
  Operation operation = Operation::kAllReduce;
  int participant_count = 2;
  int rank_stride = 1;
  // As nccl-tests counts them.
  int64_t message_size = 0;
  absl::Duration median;
  absl::Duration p90;
  int sample_count = 0;
  friend bool operator==(const CollectiveSamples&, const CollectiveSamples&) = default;
};

struct StepWindow {
  int rank = 0;
  // Counted from 0.
  int64_t first_step = 0;
  int step_count = 0;
  absl::Duration median_step;
  // [StepPhase] of one step: medians, which need not add up to that of the step. All zero
  // where phases were not taken.
  std::array<absl::Duration, kStepPhaseCount> phases = {};
  // When most was in use.
  ArrayUsage memory_at_peak;
  // What the device holds for the process besides; 0 where it is not known.
  Bytes context_memory;
  // By operation, participants, stride and size.
  std::vector<CollectiveSamples> collectives;

  absl::Duration operator[](StepPhase phase) const { return phases[static_cast<int>(phase)]; }
  Bytes peak_memory() const { return memory_at_peak.Total() + context_memory; }
};

// The name for people and JSON, for example `tensor_parallel`.
std::string StepPhaseName(StepPhase phase);

// As servers take it.
v1::MeasuredWindow WindowToProto(const StepWindow& window);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STEP_WINDOW_H_
