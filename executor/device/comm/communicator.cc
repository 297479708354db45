#include "executor/device/comm/communicator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

namespace {

absl::Status CallError(const CollectiveCall& call, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat(OperationName(call.operation), ": ", rule));
}

bool IsPair(const CollectiveCall& call) {
  return call.operation == Operation::kSend || call.operation == Operation::kReceive;
}

// Operations that were started one after another.
class SeveralWorks : public PendingWork {
 public:
  void Add(std::unique_ptr<PendingWork> work) { works_.push_back(std::move(work)); }
  // Waits for all; returns the first error.
  absl::Status Wait() override {
    absl::Status result;
    for (const std::unique_ptr<PendingWork>& work : works_) result.Update(work->Wait());
    return result;
  }
  bool IsDone() override {
    return std::all_of(works_.begin(), works_.end(),
                       [](const std::unique_ptr<PendingWork>& work) { return work->IsDone(); });
  }

 private:
  std::vector<std::unique_ptr<PendingWork>> works_;
};

}  // namespace

absl::Status CheckCall(const CollectiveCall& call, int rank, int size, absl::string_view group) {
  const Operation operation = call.operation;
  if (operation == Operation::kBarrier) return absl::OkStatus();
  if (call.count < 0) return CallError(call, "count is negative");
  if (IsPair(call) || operation == Operation::kBroadcast) {
    if (call.peer < 0 || call.peer >= size) {
      return CallError(call, absl::StrCat("peer ", call.peer, " is no rank of ", group));
    }
    if (IsPair(call) && call.peer == rank) return CallError(call, "peer is this rank");
  }
  const bool reads = operation != Operation::kReceive &&
                     !(operation == Operation::kBroadcast && call.peer != rank);
  if (call.count > 0 && reads && call.send == nullptr) return CallError(call, "send is null");
  if (call.count > 0 && operation != Operation::kSend && call.receive == nullptr) {
    return CallError(call, "receive is null");
  }
  const bool reduces = operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
  if (reduces && call.type == ElementType::kByte) {
    return CallError(call, "bytes cannot be added up");
  }
  if (operation == Operation::kAllToAll && call.count > 0 && call.send == call.receive) {
    return CallError(call, "send and receive must be different buffers");
  }
  return absl::OkStatus();
}

int64_t SendBytes(const CollectiveCall& call, int rank, int size) {
  const int64_t bytes = call.count * ElementSize(call.type);
  switch (call.operation) {
    case Operation::kAllReduce:
    case Operation::kAllGather:
    case Operation::kSend:
      return bytes;
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return bytes * size;
    case Operation::kBroadcast:
      return call.peer == rank ? bytes : 0;
    case Operation::kReceive:
    case Operation::kBarrier:
      break;
  }
  return 0;
}

int64_t ReceiveBytes(const CollectiveCall& call, int size) {
  const int64_t bytes = call.count * ElementSize(call.type);
  switch (call.operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
    case Operation::kBroadcast:
    case Operation::kReceive:
      return bytes;
    case Operation::kAllGather:
    case Operation::kAllToAll:
      return bytes * size;
    case Operation::kSend:
    case Operation::kBarrier:
      break;
  }
  return 0;
}

int64_t WholeBytes(const CollectiveCall& call, int size) {
  const bool is_share = call.operation == Operation::kAllGather ||
                        call.operation == Operation::kReduceScatter ||
                        call.operation == Operation::kAllToAll;
  return call.count * ElementSize(call.type) * (is_share ? size : 1);
}

absl::Status Communicator::Run(const CollectiveCall& call) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<PendingWork> work, Start(call));
  return work->Wait();
}

absl::Status Communicator::RunTogether(absl::Span<const CollectiveCall> calls) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<PendingWork> work, StartTogether(calls));
  return work->Wait();
}

absl::StatusOr<std::unique_ptr<PendingWork>> Communicator::StartTogether(
    absl::Span<const CollectiveCall> calls) {
  auto all = std::make_unique<SeveralWorks>();
  for (const CollectiveCall& call : calls) {
    absl::StatusOr<std::unique_ptr<PendingWork>> work = Start(call);
    if (!work.ok()) {
      // Those that were started use their buffers until they end.
      all->Wait().IgnoreError();
      return work.status();
    }
    all->Add(*std::move(work));
  }
  return all;
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
