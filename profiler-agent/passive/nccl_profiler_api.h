// The interface of NCCL profiler plugins, versions 4 (NCCL 2.27) and 5 (2.28), which
// nccl_profiler.cc implements: only the events that it reads, with their fields at the offsets of
// NCCL's documentation. NCCL publishes these structures for plugins to declare themselves; there is
// no header to include.
//
// NCCL calls from any of its threads: operations of one communicator begin on one thread at a time,
// channels on others. No event comes after the last `finalize`. All pointers of an event are NCCL's
// own, valid during the call. Ranks and peers count from 0 within the communicator, not within the
// job. Sizes and offsets are checked here, on 64-bit machines. No real NCCL has been tried.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_NCCL_PROFILER_API_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_NCCL_PROFILER_API_H_

#include <cstddef>
#include <cstdint>

namespace parplan::nccl {

// ncclSuccess. Nothing else is ever returned, so that recording never fails a job.
inline constexpr int kSuccess = 0;

// Bits of event types, equal in both versions.
inline constexpr int kCollectiveEvent = 1 << 1;
inline constexpr int kPointToPointEvent = 1 << 2;
// One channel (block) of an operation's kernel; carries times of the device's clock.
inline constexpr int kKernelChannelEvent = 1 << 6;

// State of a kernel channel that has ended; its argument is the time.
inline constexpr int kKernelChannelStop = 22;

// A collective that a rank enqueues. `count` is in elements of `datatype`: of the whole message for
// AllReduce and Broadcast, of one rank's part for AllGather, ReduceScatter and AlltoAll. `function`
// and `datatype` may be null or unknown; such events are passed over.
struct CollectiveEvent {
  uint64_t sequence;
  const char* function;  // "AllReduce", "AllGather", ...
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* datatype;  // "ncclFloat32", ...
  uint8_t channel_count;
  uint8_t warp_count;
  const char* algorithm;
  const char* protocol;
};

// A send or a receive that a rank enqueues. `count` is in elements of `datatype`, `peer` the other
// rank of the communicator.
struct PointToPointEvent {
  const char* function;  // "Send" or "Recv"
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channel_count;
};

// The beginning of one channel of an operation that was enqueued before.
struct KernelChannelEvent {
  uint8_t channel;
  uint64_t start;  // Nanoseconds of the device's global timer.
};

// Version 4 stores an event's type in one byte, version 5 in eight. The following fields have the
// same offsets in both; version 5 appends fields to some events. `type` is one of the bits above
// and says which member of the union holds. `parent` is the handle that `start` set for the event
// which this one belongs to, or null.
template <typename Type>
struct Event {
  Type type;
  void* parent;
  int rank;
  union {
    CollectiveEvent collective;
    PointToPointEvent point_to_point;
    KernelChannelEvent kernel_channel;
  };
};
using EventV4 = Event<uint8_t>;
using EventV5 = Event<uint64_t>;

static_assert(offsetof(EventV4, parent) == 8 && offsetof(EventV5, parent) == 8);
static_assert(offsetof(EventV4, rank) == 16 && offsetof(EventV5, rank) == 16);
static_assert(offsetof(EventV4, collective) == 24 && offsetof(EventV5, collective) == 24);
static_assert(offsetof(CollectiveEvent, function) == 8 && offsetof(CollectiveEvent, count) == 32);
static_assert(offsetof(CollectiveEvent, datatype) == 48);
static_assert(offsetof(CollectiveEvent, channel_count) == 56);
static_assert(offsetof(PointToPointEvent, count) == 24 && offsetof(PointToPointEvent, peer) == 32);
static_assert(offsetof(PointToPointEvent, channel_count) == 36);
static_assert(offsetof(KernelChannelEvent, start) == 8);

// Arguments of a state; for a kernel channel, the time.
union StateArguments {
  uint64_t time;
  void* unused;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

// The table of functions that a plugin of version 4 exports. Each function returns `kSuccess`.
// `init` is called once for each communicator, `finalize` at its end; `start` begins an event and
// sets `handle`, by which `stop` and `record_state` name it; null if the event is not recorded.
// `stop` comes for an operation when it has been enqueued on the host, for a channel when it is
// done.
//
// `init` sets `context`, null if nothing is recorded, and may set `mask` to the events that it
// wants. NCCL has one mask for all communicators of the process and reads it at every event, so it
// can be changed later through that pointer, until the last `finalize`. `communicator_name` may be
// null.
struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* communicator_name, uint64_t communicator_id,
              int node_count, int rank_count, int rank, Logger logger);
  int (*start)(void* context, void** handle, EventV4* event);
  int (*stop)(void* handle);
  int (*record_state)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

// The table of version 5, which differs in the order of the first arguments of `init` and in the
// events.
struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, uint64_t communicator_id, int* mask, const char* communicator_name,
              int node_count, int rank_count, int rank, Logger logger);
  int (*start)(void* context, void** handle, EventV5* event);
  int (*stop)(void* handle);
  int (*record_state)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace parplan::nccl

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_NCCL_PROFILER_API_H_
