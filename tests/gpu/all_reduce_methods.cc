#include "tests/gpu/all_reduce_methods.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "profiler-agent/probe/collective_probe.h"

namespace parplan {
namespace {

absl::Status Checked(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

absl::Status Checked(ncclResult_t result, absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", ncclGetErrorString(result)));
}

// Returns the id of a communicator of all ranks, which rank 0 makes.
absl::StatusOr<ncclUniqueId> ShareId(RankContext& job) {
  constexpr char kKey[] = "as nccl-tests";
  ncclUniqueId id;
  if (job.rank() == 0) {
    PARPLAN_RETURN_IF_ERROR(Checked(::ncclGetUniqueId(&id), "ncclGetUniqueId"));
    PARPLAN_RETURN_IF_ERROR(job.Publish(
        kKey, absl::BytesToHexString(absl::string_view(id.internal, sizeof(id.internal)))));
    return id;
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, job.Await(kKey));
  const std::string bytes = absl::HexStringToBytes(text);
  if (bytes.size() != sizeof(id.internal)) return absl::InternalError("no id of NCCL's");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

}  // namespace

absl::StatusOr<absl::Duration> TimeAsNcclTests(const AllReduceRank& rank, int64_t message_bytes) {
  PARPLAN_RETURN_IF_ERROR(Checked(::cudaSetDevice(rank.device_index), "cudaSetDevice"));
  PARPLAN_ASSIGN_OR_RETURN(const ncclUniqueId id, ShareId(*rank.job));
  cudaStream_t stream = nullptr;
  PARPLAN_RETURN_IF_ERROR(
      Checked(::cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  const absl::Cleanup end_stream = [&] { static_cast<void>(::cudaStreamDestroy(stream)); };
  void* data = nullptr;
  const auto size = static_cast<size_t>(message_bytes);
  PARPLAN_RETURN_IF_ERROR(Checked(::cudaMalloc(&data, size), "cudaMalloc"));
  const absl::Cleanup end_data = [&] { static_cast<void>(::cudaFree(data)); };
  PARPLAN_RETURN_IF_ERROR(Checked(::cudaMemsetAsync(data, 0, size, stream), "cudaMemsetAsync"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t communicator = nullptr;
  PARPLAN_RETURN_IF_ERROR(Checked(::ncclCommInitRankConfig(&communicator, rank.job->world_size(),
                                                           id, rank.job->rank(), &config),
                                  "ncclCommInitRankConfig"));
  const absl::Cleanup end_communicator = [&] {
    static_cast<void>(::ncclCommDestroy(communicator));
  };
  const auto run = [&](int count) -> absl::Status {
    for (int i = 0; i < count; ++i) {
      PARPLAN_RETURN_IF_ERROR(Checked(::ncclAllReduce(data, data, size / sizeof(float), ncclFloat32,
                                                      ncclSum, communicator, stream),
                                      "ncclAllReduce"));
    }
    return absl::OkStatus();
  };
  PARPLAN_RETURN_IF_ERROR(run(kWarmUpOperations));
  std::array<double, kRounds> seconds = {};
  for (double& round : seconds) {
    PARPLAN_RETURN_IF_ERROR(Checked(::cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
    PARPLAN_RETURN_IF_ERROR(rank.control->Barrier());
    const absl::Duration begun = SteadyNow();
    PARPLAN_RETURN_IF_ERROR(run(kTimedOperations));
    PARPLAN_RETURN_IF_ERROR(Checked(::cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
    round = absl::ToDoubleSeconds(SteadyNow() - begun) / kTimedOperations;
  }
  PARPLAN_RETURN_IF_ERROR(
      rank.control->AllReduce(ElementType::kFloat64, seconds.data(), kRounds, Reduction::kMax));
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return absl::Seconds(seconds[kRounds / 2]);
}

absl::StatusOr<absl::Duration> TimeAsProbe(const AllReduceRank& rank, int64_t message_bytes) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<LayerKernels> kernels,
                           rank.device->MakeKernels(ElementType::kFloat32));
  CollectiveProbe probe(*rank.job, *rank.device, *kernels, *rank.control,
                        {.is_asynchronous = true});
  PARPLAN_ASSIGN_OR_RETURN(const TimeSpread spread,
                           probe.Measure({.collective = Collective::kAllReduce,
                                          .participant_count = rank.job->world_size(),
                                          .rank_stride = 1,
                                          .message_bytes = message_bytes}));
  return spread.median;
}

absl::Status CheckRatio(const AllReduceTimes& times) {
  if (times.Ratio() <= kLargestRatio) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrFormat(
      "an all-reduce of %d bytes takes %.2f us by the probe and %.2f us by nccl-tests' method, "
      "%.2f times as long; the goal is %.1f",
      times.message_bytes, absl::ToDoubleMicroseconds(times.probe),
      absl::ToDoubleMicroseconds(times.nccl_tests), times.Ratio(), kLargestRatio));
}

std::string ToJson(const AllReduceTimes& times) {
  return absl::StrFormat(
      "{\"ranks\": %d, \"message_bytes\": %d, \"nccl_tests_us\": %.3f, \"probe_us\": %.3f, "
      "\"ratio\": %.4f, \"goal\": %.1f}",
      times.ranks, times.message_bytes, absl::ToDoubleMicroseconds(times.nccl_tests),
      absl::ToDoubleMicroseconds(times.probe), times.Ratio(), kLargestRatio);
}

}  // namespace parplan
