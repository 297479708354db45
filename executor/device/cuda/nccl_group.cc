#include "executor/device/cuda/nccl_group.h"

#include <chrono>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/cuda/leavable_thread.h"
#include "executor/device/cuda/nccl_calls.h"
#include "executor/device/cuda/nccl_library.h"

namespace parplan::cuda {
namespace {

// How long an aborted making may take to return. Not measured.
constexpr std::chrono::seconds kAbortPatience(10);
constexpr std::chrono::milliseconds kPoll(10);

}  // namespace

absl::StatusOr<ncclUniqueId> ShareId(RankContext& job, const std::string& key, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    PARPLAN_RETURN_IF_ERROR(NcclStatus(Nccl().ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
    PARPLAN_RETURN_IF_ERROR(job.Publish(
        key, absl::BytesToHexString(absl::string_view(id.internal, sizeof(id.internal)))));
    return id;
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, job.Await(key));
  const std::string bytes = absl::HexStringToBytes(text);
  if (bytes.size() != sizeof(id.internal)) {
    return absl::InternalError(absl::StrCat(key, " is no name of NCCL's"));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

absl::StatusOr<ncclComm_t> MakeCommunicator(const NcclGroup& group,
                                            const std::shared_ptr<NcclMaking>& making,
                                            std::function<ncclResult_t(NcclMaking&)> make,
                                            absl::FunctionRef<absl::Status()> failure,
                                            absl::FunctionRef<void(ncclComm_t)> aborts) {
  LeavableThread thread([making, device = group.device->queue().device(), make = std::move(make)] {
    const bool has_device = ::cudaSetDevice(device) == cudaSuccess;
    making->result = has_device ? make(*making) : ncclUnhandledCudaError;
  });
  const absl::Duration deadline = SteadyNow() + group.job->operation_timeout();
  absl::Status status;
  while (status.ok() && !thread.IsOverWithin(kPoll)) {
    status = failure();
    if (status.ok()) status = group.job->Health();
    if (status.ok() && SteadyNow() > deadline) status = Overdue(group, "the making");
  }
  if (!status.ok()) {
    aborts(std::atomic_ref<ncclComm_t>(making->communicator).load());
    static_cast<void>(thread.IsOverWithin(kAbortPatience));
    return status;
  }
  PARPLAN_RETURN_IF_ERROR(
      NcclStatus(making->result, nullptr, absl::StrCat("the making of ", group.name)));
  return making->communicator;
}

void DestroyCommunicator(const NcclGroup& group, const std::shared_ptr<NcclMaking>& making,
                         ncclComm_t communicator) {
  // Keeps what NCCL refers to.
  LeavableThread thread([making, communicator, device = group.device->queue().device()] {
    static_cast<void>(::cudaSetDevice(device));
    static_cast<void>(Nccl().ncclCommDestroy(communicator));
  });
  const absl::Duration deadline = SteadyNow() + group.job->operation_timeout();
  while (!thread.IsOverWithin(kPoll)) {
    absl::Status status = group.job->Health();
    if (status.ok() && SteadyNow() > deadline) {
      const absl::Status overdue = Overdue(group, "the destruction");
      status = group.job->ReportStall(std::string(overdue.message()), /*awaited_rank=*/-1);
      status.Update(overdue);
    }
    if (status.ok()) continue;
    // The others may be on their way, as this rank is.
    if (!thread.IsOverWithin(absl::ToChronoMilliseconds(group.call_patience))) {
      group.device->queue().Fail(status);
    }
    return;
  }
}

absl::Status Overdue(const NcclGroup& group, absl::string_view what) {
  return absl::DeadlineExceededError(
      absl::StrCat(what, " of ", group.name, " took longer than ",
                   absl::FormatDuration(group.job->operation_timeout())));
}

}  // namespace parplan::cuda
