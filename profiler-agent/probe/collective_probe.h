// Times collectives in the way of nccl-tests: all groups of a shape run at once, several operations
// make a sample, the slowest rank counts, and the first operations are discarded. Used by
// `RunProbe`, as the other probes of this folder.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_COLLECTIVE_PROBE_H_
#define PARPLAN_PROFILER_AGENT_PROBE_COLLECTIVE_PROBE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/layer_probe/time_spread.h"
#include "planner/model/profile_snapshot.h"

namespace parplan {

// A collective to measure: side-by-side groups of `participant_count` ranks, each `rank_stride`
// ranks from the one before, and a message whose `message_bytes` are of the whole buffer, not one
// rank's share, as nccl-tests counts them.
struct CollectiveKey {
  Collective collective = Collective::kAllReduce;
  int participant_count = 2;
  int rank_stride = 1;
  int64_t message_bytes = 0;
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

// Returns whether side-by-side groups of this shape use all `rank_count` ranks. False for fewer
// than two participants and for a stride below 1.
bool ShapeCovers(int participant_count, int rank_stride, int rank_count);

// Returns the ranks of the group that contains `rank`, in order. REQUIRES, unchecked: ShapeCovers.
std::vector<int> GroupOf(int participant_count, int rank_stride, int rank);

// How long and how exactly to measure. The values were chosen; none was measured.
struct CollectiveProbeOptions {
  // Operations that are discarded, and samples to take: up to 7 more than the maximum, as short
  // operations are sampled 8 at a time.
  int warm_up_count = 3;
  int min_sample_count = 8;
  int max_sample_count = 400;
  // Sampling ends when the median is known to within this share of itself with 95 % probability.
  double precision = 0.02;
  // Sampling also ends when samples have taken this long and there are at least three.
  absl::Duration time_limit = absl::Milliseconds(200);
  // Duration of a sample: as many operations in a row as take this long, at most 64. Longer than
  // the resolution and overhead of the clock by far.
  absl::Duration sample_time = absl::Microseconds(200);
  // Whether the device works while the host goes on. The operations of a sample are then queued one
  // after another, so that short ones show their own time and not that of the host's calls, and
  // messages are of the kernels' type instead of fp32, with as many bytes.
  bool is_asynchronous = false;
};

// One rank's part in measuring collectives. All ranks of the job must call `Measure` with the same
// keys in the same order.
class CollectiveProbe {
 public:
  // All references must outlive this object. `control` joins all ranks in host memory.
  CollectiveProbe(RankContext& job, Device& device, LayerKernels& kernels, Communicator& control,
                  const CollectiveProbeOptions& options);

  // Returns the time of one operation at the slowest rank, the same at every rank; blocks until it
  // is known. The two ranks of a send take turns in sending, and all ranks take turns as the root
  // of a broadcast, so that none runs ahead. INVALID_ARGUMENT (SPEC_INVALID) if the groups do not
  // use all ranks, the size is not that of WholeMessageBytes (probe_plan.h), or send and receive
  // has not two participants; otherwise the errors of communicators (UNAVAILABLE or ABORTED after
  // another rank failed) and RESOURCE_EXHAUSTED if the device's memory does not suffice. After an
  // error the object must be destroyed.
  absl::StatusOr<TimeSpread> Measure(const CollectiveKey& key);

 private:
  struct Buffers;

  absl::StatusOr<Communicator*> GroupFor(int participant_count, int rank_stride);
  absl::Status RunSome(Communicator& group, const CollectiveKey& key, Buffers& buffers, int count);
  // Appends `count` samples, each at the slowest rank.
  absl::Status TakeSamples(Communicator& group, const CollectiveKey& key, Buffers& buffers,
                           int operation_count, int count, std::vector<absl::Duration>& samples);

  RankContext& job_;
  Device& device_;
  LayerKernels& kernels_;
  Communicator& control_;
  const CollectiveProbeOptions options_;
  const std::unique_ptr<Stopwatch> stopwatch_;
  ArrayPool pool_;
  // Groups by (participant count, rank stride).
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_COLLECTIVE_PROBE_H_
