#include "executor/device/cuda/nccl_calls.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "executor/device/cuda/nccl_library.h"

namespace parplan::cuda {
namespace {

ncclDataType_t DataType(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return ncclFloat32;
    case ElementType::kFloat64:
      return ncclFloat64;
    case ElementType::kBfloat16:
      return ncclBfloat16;
    case ElementType::kByte:
      break;
  }
  return ncclUint8;
}

ncclResult_t LaunchAllToAll(const CollectiveCall& call, int size, ncclComm_t communicator,
                            cudaStream_t stream) {
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = DataType(call.type);
  const auto share = static_cast<size_t>(call.count * ElementSize(call.type));
  for (int other = 0; other < size; ++other) {
    const ncclResult_t sent = Nccl().ncclSend(static_cast<const char*>(call.send) + other * share,
                                              count, type, other, communicator, stream);
    if (sent != ncclSuccess) return sent;
    const ncclResult_t received = Nccl().ncclRecv(static_cast<char*>(call.receive) + other * share,
                                                  count, type, other, communicator, stream);
    if (received != ncclSuccess) return received;
  }
  return ncclSuccess;
}

ncclResult_t LaunchCall(const CollectiveCall& call, int size, void* number, ncclComm_t communicator,
                        cudaStream_t stream) {
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = DataType(call.type);
  const ncclRedOp_t reduction = call.reduction == Reduction::kSum ? ncclSum : ncclMax;
  switch (call.operation) {
    case parplan::Operation::kAllReduce:
      return Nccl().ncclAllReduce(call.send, call.receive, count, type, reduction, communicator,
                                  stream);
    case parplan::Operation::kAllGather:
      return Nccl().ncclAllGather(call.send, call.receive, count, type, communicator, stream);
    case parplan::Operation::kReduceScatter:
      return Nccl().ncclReduceScatter(call.send, call.receive, count, type, reduction, communicator,
                                      stream);
    case parplan::Operation::kBroadcast:
      return Nccl().ncclBroadcast(call.send == nullptr ? call.receive : call.send, call.receive,
                                  count, type, call.peer, communicator, stream);
    case parplan::Operation::kSend:
      return Nccl().ncclSend(call.send, count, type, call.peer, communicator, stream);
    case parplan::Operation::kReceive:
      return Nccl().ncclRecv(call.receive, count, type, call.peer, communicator, stream);
    case parplan::Operation::kAllToAll:
      return LaunchAllToAll(call, size, communicator, stream);
    case parplan::Operation::kBarrier:
      // NCCL has none; a number is all-reduced instead.
      return Nccl().ncclAllReduce(number, number, 1, ncclFloat32, ncclSum, communicator, stream);
  }
  return ncclInvalidArgument;
}

}  // namespace

absl::Status NcclStatus(ncclResult_t result, ncclComm_t communicator, absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  const char* const detail = Nccl().ncclGetLastError(communicator);
  const absl::StatusCode code =
      result == ncclRemoteError ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat(what, ": ", Nccl().ncclGetErrorString(result),
                                         detail == nullptr || *detail == '\0' ? "" : "; ",
                                         detail == nullptr ? "" : detail));
}

ncclResult_t LaunchCalls(absl::Span<const CollectiveCall> calls, int size, void* number,
                         ncclComm_t communicator, cudaStream_t stream) {
  const bool is_group =
      calls.size() > 1 || calls.front().operation == parplan::Operation::kAllToAll;
  ncclResult_t result = is_group ? Nccl().ncclGroupStart() : ncclSuccess;
  for (const CollectiveCall& call : calls) {
    if (result == ncclSuccess) result = LaunchCall(call, size, number, communicator, stream);
  }
  if (is_group) {
    const ncclResult_t ended = Nccl().ncclGroupEnd();
    if (result == ncclSuccess) result = ended;
  }
  return result;
}

}  // namespace parplan::cuda
