// Collective operations among the ranks of a group, with NCCL's conventions.
//
// A back end implements `Communicator`: shared memory and TCP (cpu_communicator.h) here,
// NCCL in the CUDA plugin. Plans are executed and measured through this interface alone,
// so that what is measured is what is executed.

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

// The type of the elements of a buffer.
enum class ElementType { kFloat32, kFloat64, kBfloat16, kByte };

// Returns the bytes of one element.
int64_t ElementSize(ElementType type);

// How elements of several ranks are combined.
enum class Reduction { kSum, kMax };

// The operations, which mean what NCCL's of the same name mean.
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

// Returns the name for messages, for example `all-reduce`.
const char* OperationName(Operation operation);

// One operation as one rank calls it. All ranks of a group call the same operations with
// the same type, count, reduction and root in the same order; `kSend` at one rank pairs with
// `kReceive` at another.
struct CollectiveCall {
  Operation operation = Operation::kBarrier;
  ElementType type = ElementType::kFloat32;
  // Number of elements, at least 0. Those of the whole buffer for all-reduce, broadcast, send
  // and receive. Those of one rank's share for all-gather (`send` is a share), reduce-scatter
  // (`receive` is a share) and all-to-all (`send` and `receive` are as many shares as ranks).
  int64_t count = 0;
  // Buffers; must live until the operation has ended. They may be one buffer: for all-gather
  // and reduce-scatter `send` or `receive` is then this rank's share of the other, as in NCCL.
  const void* send = nullptr;
  void* receive = nullptr;
  // Rank of the group that is the root of a broadcast, or the other side of a send or receive.
  int peer = -1;
  Reduction reduction = Reduction::kSum;
};

// Checks `call` against the rules above for rank `rank` of a group of `size` ranks called `group`:
// INVALID_ARGUMENT with the rule it breaks. Bytes cannot be reduced, the buffers of an all-to-all
// must differ, and unless `count` is 0 no buffer that the operation uses is null: the root of a
// broadcast needs both, the other ranks `receive` alone.
absl::Status CheckCall(const CollectiveCall& call, int rank, int size, absl::string_view group);

// Return the bytes that a rank of a group of `size` has in `send` and in `receive`; 0 if its
// operation does not read or write there.
int64_t SendBytes(const CollectiveCall& call, int rank, int size);
int64_t ReceiveBytes(const CollectiveCall& call, int size);
// Returns the message size as nccl-tests counts it: the bytes of the whole buffer.
int64_t WholeBytes(const CollectiveCall& call, int size);

// An operation under way. Destroying this does not end it: the buffers must still live until it has
// ended. REQUIRES, unchecked: it is not used after its communicator is gone.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  // Blocks until the operation has ended and returns how; further calls return the same. NCCL's
  // blocks at most until it has started, except for a barrier, and makes later work of the device
  // wait for its end. DEADLINE_EXCEEDED naming the rank that was waited for, UNAVAILABLE if a rank
  // is lost, DATA_LOSS if something was altered on its way, ABORTED after `Abort`, INTERNAL if the
  // ranks called different operations. After an error every operation of the communicator fails,
  // and the content of its buffers is undefined.
  virtual absl::Status Wait() = 0;
  // Returns whether the operation has ended, well or not. Between processors a call also moves it.
  virtual bool IsDone() = 0;
};

// Counters of what a communicator has done so far.
struct CommunicatorStats {
  // The counters of one operation.
  struct Entry {
    int64_t call_count = 0;
    // Sum of message sizes (WholeBytes).
    int64_t byte_count = 0;
    // Sum of the times from the start of each operation to its end (Communicator::MeasureBusy).
    absl::Duration busy;
  };
  // [Operation]
  std::array<Entry, kOperationCount> entries = {};
};

// A group of ranks, as one of them sees it. Used by one thread at a time, except for `Abort`. To be
// destroyed when its operations have ended: between processors those under way are dropped, so that
// other ranks fail or wait in vain; on a GPU the destructor waits for them.
//
// Any device keeps the order of the calls in a group. Between processors, sends and receives of
// different pairs are also independent. Between GPUs they are not: an operation begins when the
// one before it in the group has ended, so callers must
//   * give sends and receives that depend on each other to one `RunTogether` or `StartTogether`,
//     as two ranks that send to each other, or ranks in a ring;
//   * let messages of a group that are started one by one flow one way, as between two stages,
//     and use another group for the way back;
//   * call operations in an order that would also be right if each waited for its peers, but for
//     sends, which proceed while their caller goes on, and for receives, which may be started
//     before what they wait for is called, if the pair has exchanged a message before.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Number of this rank in the group, from 0 to size() - 1.
  virtual int rank() const = 0;
  // Returns the number of ranks in the group.
  virtual int size() const = 0;
  // Name for messages: what the group is for and which ranks of the job are in it.
  virtual const std::string& name() const = 0;

  // Starts an operation and returns; it proceeds while the caller computes. Operations that send
  // from one rank to the same other rank run in the order in which they were started, others
  // concurrently. Returns INVALID_ARGUMENT for a call that breaks a rule of `CollectiveCall`, which
  // starts nothing, so that other ranks wait for it, or the error with which it has failed before.
  // Between GPUs also the errors of `Warm` and of the launch.
  virtual absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) = 0;

  // Starts the operation and waits for its end. Returns the errors of `Start` and
  // `PendingWork::Wait`.
  virtual absl::Status Run(const CollectiveCall& call);
  // Starts all operations, then waits for all, so that a send and a receive that depend on each
  // other do not deadlock. Returns the first error, once all that were started have ended. OK for
  // an empty list.
  virtual absl::Status RunTogether(absl::Span<const CollectiveCall> calls);
  // Starts all operations as one; its work has ended when all have. None of them waits for another:
  // on a GPU they are a single call of NCCL. Nothing is started for an empty list.
  virtual absl::StatusOr<std::unique_ptr<PendingWork>> StartTogether(
      absl::Span<const CollectiveCall> calls);
  // Connects the ranks, so that no later collective spends time on it; between GPUs the first
  // message of a pair still connects the two, and waits for both. Collective, and of no effect
  // when repeated. Without it the first operation connects, which all ranks of the group must then
  // start; a group of more than two ranks whose first operations are sends and receives needs
  // `Warm`. DEADLINE_EXCEEDED or UNAVAILABLE if a rank does not come, or DATA_LOSS.
  virtual absl::Status Warm() { return absl::OkStatus(); }

  // Splits the group: ranks that give the same `color` are in one group, ordered by `key` and then
  // by rank. Returns null for a negative color. Collective: all ranks call it. Returns the errors
  // of `PendingWork::Wait` and of making a group (RankContext::MakeGroup).
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) = 0;

  // Ends all operations of the group, under way and to come, and with them the whole job at all
  // ranks (JobWatch::Abort). Any thread may call it.
  virtual void Abort(absl::string_view reason) = 0;

  // Has the times of later operations measured, or no longer. Only NCCL's communicator needs it and
  // heeds it: a GPU measures none by itself, processors always do, and wrappers do not pass it on.
  virtual void MeasureBusy(bool /*measures*/) {}
  // Returns the counters so far.
  virtual CommunicatorStats Stats() const = 0;

  // Run the usual operations, with the errors of `Run`; with one buffer, in place. Counts are
  // elements.
  absl::Status AllReduce(ElementType type, void* data, int64_t count,
                         Reduction reduction = Reduction::kSum);
  absl::Status AllGather(ElementType type, const void* share, void* whole, int64_t share_count);
  absl::Status ReduceScatter(ElementType type, const void* whole, void* share, int64_t share_count);
  absl::Status Broadcast(ElementType type, void* data, int64_t count, int root);
  absl::Status Barrier();
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_COMMUNICATOR_H_
