// Takes the time of collectives as nccl-tests does: all groups of a shape at once, several
// operations in a row, the slowest rank, without what comes first.

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

// What is measured: fields as of `CollectiveTiming`.
struct CollectiveKey {
  Collective collective = Collective::kAllReduce;
  int participant_count = 2;
  int rank_stride = 1;
  int64_t message_bytes = 0;
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

// Groups of a shape lie side by side: whether they use all of so many ranks.
bool ShapeCovers(int participant_count, int rank_stride, int rank_count);

// The ranks of the group that `rank` is in. REQUIRES: ShapeCovers.
std::vector<int> GroupOf(int participant_count, int rank_stride, int rank);

// The largest size up to `message_bytes` that floats in equal shares have; at least one float
// a rank.
int64_t WholeMessageBytes(Collective collective, int participant_count, int64_t message_bytes);

struct CollectiveProbeOptions {
  int warm_up_count = 3;
  int min_sample_count = 8;
  int max_sample_count = 400;
  // Until the median is known to this share of itself with 95 % probability,
  double precision = 0.02;
  // or the samples have taken so long.
  absl::Duration time_limit = absl::Milliseconds(200);
  // Operations in a row are one sample: as many as take this long, at most 64.
  absl::Duration sample_time = absl::Microseconds(200);
};

// Of one rank. All ranks of the job call `Measure` with the same keys in the same order.
class CollectiveProbe {
 public:
  // All outlive it. `control` is over all ranks and the memory of the host.
  CollectiveProbe(RankContext& job, Device& device, LayerKernels& kernels, Communicator& control,
                  const CollectiveProbeOptions& options);

  // The time of one operation, at the slowest rank; the same answer at every rank. Between
  // samples of a send the two take turns, of a broadcast all do, so that none runs ahead.
  // INVALID_ARGUMENT where the groups do not use all ranks or the size is not that of
  // WholeMessageBytes; the errors of communicators and of memory.
  absl::StatusOr<TimeSpread> Measure(const CollectiveKey& key);

 private:
  struct Buffers;

  absl::StatusOr<Communicator*> GroupFor(int participant_count, int rank_stride);
  absl::Status RunSome(Communicator& group, const CollectiveKey& key, Buffers& buffers, int count);
  // Of `count` samples at the slowest rank each.
  absl::Status TakeSamples(Communicator& group, const CollectiveKey& key, Buffers& buffers,
                           int operation_count, int count, std::vector<absl::Duration>& samples);

  RankContext& job_;
  Device& device_;
  LayerKernels& kernels_;
  Communicator& control_;
  const CollectiveProbeOptions options_;
  const std::unique_ptr<Stopwatch> stopwatch_;
  ArrayPool pool_;
  // By participants and stride.
  std::map<std::pair<int, int>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_COLLECTIVE_PROBE_H_
