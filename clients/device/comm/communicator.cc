#include "clients/device/comm/communicator.h"

#include <utility>
#include <vector>

#include "planner/base/status_macros.h"

namespace parplan {

int64_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
      return 8;
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kByte:
      return 1;
  }
  return 1;
}

const char* OperationName(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all-reduce";
    case Operation::kAllGather:
      return "all-gather";
    case Operation::kReduceScatter:
      return "reduce-scatter";
    case Operation::kAllToAll:
      return "all-to-all";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kSend:
      return "send";
    case Operation::kReceive:
      return "receive";
    case Operation::kBarrier:
      return "barrier";
  }
  return "operation";
}

absl::Status Communicator::Run(const CollectiveCall& call) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<PendingWork> work, Start(call));
  return work->Wait();
}

absl::Status Communicator::RunTogether(absl::Span<const CollectiveCall> calls) {
  std::vector<std::unique_ptr<PendingWork>> works;
  absl::Status result;
  for (const CollectiveCall& call : calls) {
    absl::StatusOr<std::unique_ptr<PendingWork>> work = Start(call);
    if (!work.ok()) {
      result = work.status();
      break;
    }
    works.push_back(*std::move(work));
  }
  for (const std::unique_ptr<PendingWork>& work : works) {
    const absl::Status status = work->Wait();
    if (result.ok()) result = status;
  }
  return result;
}

absl::Status Communicator::AllReduce(ElementType type, void* data, int64_t count,
                                     Reduction reduction) {
  return Run({.operation = Operation::kAllReduce,
              .type = type,
              .count = count,
              .send = data,
              .receive = data,
              .reduction = reduction});
}

absl::Status Communicator::AllGather(ElementType type, const void* share, void* whole,
                                     int64_t share_count) {
  return Run({.operation = Operation::kAllGather,
              .type = type,
              .count = share_count,
              .send = share,
              .receive = whole});
}

absl::Status Communicator::ReduceScatter(ElementType type, const void* whole, void* share,
                                         int64_t share_count) {
  return Run({.operation = Operation::kReduceScatter,
              .type = type,
              .count = share_count,
              .send = whole,
              .receive = share});
}

absl::Status Communicator::Broadcast(ElementType type, void* data, int64_t count, int root) {
  return Run({.operation = Operation::kBroadcast,
              .type = type,
              .count = count,
              .send = data,
              .receive = data,
              .peer = root});
}

absl::Status Communicator::Barrier() { return Run({.operation = Operation::kBarrier}); }

}  // namespace parplan
