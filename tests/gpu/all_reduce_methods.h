// Two ways to time a small all-reduce of all ranks of a job: that of nccl-tests, and the agent's
// probe, whose times plans are predicted from.

#ifndef PARPLAN_TESTS_GPU_ALL_REDUCE_METHODS_H_
#define PARPLAN_TESTS_GPU_ALL_REDUCE_METHODS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/backend/device_backend.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/rank_context.h"

namespace parplan {

// A rank's part. All outlive a call, and `control` joins all ranks in host memory.
struct AllReduceRank {
  RankContext* job = nullptr;
  Device* device = nullptr;
  Communicator* control = nullptr;
  // The device's number for CUDA.
  int device_index = 0;
};

// Operations of nccl-tests before those that count, and those that count (`-w 5 -n 20`); and how
// often it is run, of which the median is taken: one run of a small message lasts a third of a
// millisecond.
inline constexpr int kWarmUpOperations = 5;
inline constexpr int kTimedOperations = 20;
inline constexpr int kRounds = 9;

// Both return the time of one all-reduce of `message_bytes` of fp32 sums, the same at every rank;
// all ranks call them together. The errors are those of NCCL, CUDA and `Communicator`.

// As `all_reduce_perf -b BYTES -e BYTES`: in place, with a communicator of NCCL's own and one
// stream, operations queued one after another between two waits of the host for the stream; the
// average of them by the host's clock, and the largest of the ranks' averages.
absl::StatusOr<absl::Duration> TimeAsNcclTests(const AllReduceRank& rank, int64_t message_bytes);
// As `parplan-agent` measures it on a GPU (CollectiveProbe).
absl::StatusOr<absl::Duration> TimeAsProbe(const AllReduceRank& rank, int64_t message_bytes);

// The times of one size.
struct AllReduceTimes {
  int ranks = 0;
  int64_t message_bytes = 0;
  absl::Duration nccl_tests;
  absl::Duration probe;
  double Ratio() const { return absl::FDivDuration(probe, nccl_tests); }
};

// The goal: the probe may measure this much more.
inline constexpr double kLargestRatio = 1.1;
// Returns OUT_OF_RANGE with both times if the probe measured more than the goal allows.
absl::Status CheckRatio(const AllReduceTimes& times);
// Returns the times, their ratio and the goal as JSON, in one line.
std::string ToJson(const AllReduceTimes& times);

}  // namespace parplan

#endif  // PARPLAN_TESTS_GPU_ALL_REDUCE_METHODS_H_
