// Collectives among the ranks of a group, with NCCL's conventions.
//
// A back end implements `Communicator`: shared memory and TCP (cpu_communicator.h) here,
// NCCL in the CUDA plugin. Plans are executed and measured through this interface alone,
// so that both are the same operations.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_COMMUNICATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

enum class ElementType { kFloat32, kFloat64, kBfloat16, kByte };

// Bytes of one element.
int64_t ElementSize(ElementType type);

enum class Reduction { kSum, kMax };

enum class Operation {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};
inline constexpr int kOperationCount = 8;

// The name as NCCL spells it, for example `all-reduce`.
const char* OperationName(Operation operation);

// One operation as one rank calls it. All ranks of a group call the same operations with
// the same type, count, reduction and root in the same order; `kSend` at one rank meets
// `kReceive` at another.
struct CollectiveCall {
  Operation operation = Operation::kBarrier;
  ElementType type = ElementType::kFloat32;
  // Elements of the whole buffer for all-reduce, broadcast, send and receive; of one rank's
  // share for all-gather (`send`), reduce-scatter (`receive`) and all-to-all (both times
  // the number of ranks). At least 0.
  int64_t count = 0;
  // May be the same buffer: for all-gather and reduce-scatter `send` or `receive` is then
  // this rank's share of the other, as in NCCL. Must live until the operation has ended.
  const void* send = nullptr;
  void* receive = nullptr;
  // Root of a broadcast, the other side of a send or receive: a rank of the group.
  int peer = -1;
  Reduction reduction = Reduction::kSum;
};

// OK where `call` keeps the rules above for a rank of a group of `size`; INVALID_ARGUMENT with
// the rule elsewhere. `group` is for people.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size, absl::string_view group);

// Bytes that a rank of a group of `size` has in `send` and in `receive`; 0 where its operation
// does not read or write there.
int64_t SendBytes(const CollectiveCall& call, int rank, int size);
int64_t ReceiveBytes(const CollectiveCall& call, int size);
// As nccl-tests counts them: the whole buffer.
int64_t WholeBytes(const CollectiveCall& call, int size);

// An operation under way.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  // Blocks until the operation has ended, and tells how. Further calls tell the same.
  // DEADLINE_EXCEEDED naming the rank that was waited for, UNAVAILABLE when a rank is gone,
  // ABORTED after `Abort`: the communicator is of no more use then, and buffers hold
  // anything.
  virtual absl::Status Wait() = 0;
  // Whether `Wait` would return at once.
  virtual bool IsDone() = 0;
};

// What a communicator has done so far.
struct CommunicatorStats {
  struct Entry {
    int64_t call_count = 0;
    // As nccl-tests counts them: the whole buffer.
    int64_t byte_count = 0;
    // From the start of each operation to its end.
    absl::Duration busy;
  };
  std::array<Entry, kOperationCount> entries = {};
};

// A group of ranks. To be used by one thread at a time, but for `Abort`.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // This rank, from 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For people: what the group is for and which ranks of the job are in it.
  virtual const std::string& name() const = 0;

  // Starts an operation and returns; it goes on while the caller computes. Operations that
  // share a way from one rank to another run in the order in which they were started,
  // others side by side. INVALID_ARGUMENT for a call that breaks a rule of
  // `CollectiveCall`.
  virtual absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) = 0;

  // Starts the operation and waits for its end.
  virtual absl::Status Run(const CollectiveCall& call);
  // Starts all and waits for all: a send and a receive that wait for each other do not
  // block. The first error.
  virtual absl::Status RunTogether(absl::Span<const CollectiveCall> calls);

  // Groups of those that give the same `color`, ordered by `key` and then by rank; null
  // where the color is negative. Called by all ranks.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

  // Ends what is under way at all ranks of the group, and all that would come. From any
  // thread.
  virtual void Abort(absl::string_view reason) = 0;

  virtual CommunicatorStats Stats() const = 0;

  // The usual operations, in place where one buffer is given.
  absl::Status AllReduce(ElementType type, void* data, int64_t count,
                         Reduction reduction = Reduction::kSum);
  absl::Status AllGather(ElementType type, const void* share, void* whole, int64_t share_count);
  absl::Status ReduceScatter(ElementType type, const void* whole, void* share, int64_t share_count);
  absl::Status Broadcast(ElementType type, void* data, int64_t count, int root);
  absl::Status Barrier();
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_COMMUNICATOR_H_
