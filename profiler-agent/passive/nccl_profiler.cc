// The NCCL profiler plugin: implements NCCL's callbacks and never makes a job fail.
//
// The duration of an operation is taken from the device: from the start of its first channel to the
// end of its last. On the host an operation's event ends when the operation is enqueued.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "profiler-agent/passive/nccl_profiler_api.h"
#include "profiler-agent/passive/operation_tracker.h"
#include "profiler-agent/passive/passive_recorder.h"

namespace parplan {
namespace {

using nccl::EventV4;
using nccl::EventV5;

// One recorder serves all communicators of the process, from the first to the last.
std::mutex recorder_mutex;
int communicator_count = 0;  // Guarded by recorder_mutex.

// The events that are recorded.
constexpr int kEvents =
    nccl::kCollectiveEvent | nccl::kPointToPointEvent | nccl::kKernelChannelEvent;

// NCCL's mask of events, one for all communicators of the process; null before the first. NCCL
// reads it at every event, so it can be changed at any time, as NCCL's own example plugin does.
// Written under recorder_mutex, read by the recorder's thread.
std::atomic<int*> mask_now = nullptr;

// While recording is off NCCL makes no event, and so neither proxy operations of channels nor host
// callbacks of graphs. What was under way when that began or ended is left out.
void SwitchRecording(bool is_on) {
  if (int* const mask = mask_now.load(std::memory_order_acquire)) {
    std::atomic_ref<int>(*mask).store(is_on ? kEvents : 0, std::memory_order_relaxed);
  }
}

// The recorder that event handles refer to. NCCL passes events without their communicator, and none
// after the last communicator is finalized. Written under recorder_mutex.
std::atomic<PassiveRecorder*> recorder_now = nullptr;

struct Communicator {
  int rank_count = 0;
  int rank = 0;
  // Distance between neighbouring members, in ranks of the job; 0 if unknown.
  int rank_stride = 0;

  // Sends to the first peers. NCCL reports an all-to-all as a send to every other rank, in one
  // group: none of them has the link for itself, and each lasts as long as all. So sends of a
  // communicator that has sent to more peers than that are left out, from its first group on.
  static constexpr size_t kMaxPeers = 2;
  struct Sent {
    int peer = -1;
    uint64_t operation = 0;
  };
  // Used by the thread that calls NCCL for this communicator.
  std::array<Sent, kMaxPeers> sent;
  size_t peer_count = 0;

  // Returns whether a send to `peer` counts.
  bool CountsSendsTo(int peer, OperationTracker& operations) {
    if (peer_count > kMaxPeers) return false;
    for (size_t i = 0; i < peer_count; ++i) {
      if (sent[i].peer == peer) return true;
    }
    if (peer_count < kMaxPeers) {
      sent[peer_count++].peer = peer;
      return true;
    }
    // Those before it in its group have not begun on the device.
    for (const Sent& earlier : sent) operations.Forget(earlier.operation);
    ++peer_count;
    return false;
  }
  void NoteSend(int peer, uint64_t operation) {
    for (Sent& one : sent) {
      if (one.peer == peer) one.operation = operation;
    }
  }
};

// Returns an event handle. It holds the operation's number and whether it is a channel, not an
// address, so a handle that is used too late does no harm.
void* HandleOf(uint64_t operation, bool is_channel) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(operation << 1 | (is_channel ? 1 : 0)));
}
uint64_t OperationOf(const void* handle) { return reinterpret_cast<uintptr_t>(handle) >> 1; }
bool IsChannel(const void* handle) { return (reinterpret_cast<uintptr_t>(handle) & 1) != 0; }

int Number(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

// Returns the job's rank from the launcher's environment variables.
int JobRank(int otherwise) {
  for (const char* name : {"PARPLAN_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(name) != nullptr) return Number(name);
  }
  return otherwise;
}

// Returns the rank stride, 0 if unknown. It is known if the communicator's name contains it
// (`stride=8`), if ranks fill whole nodes one after another, or if there is one rank on each node.
int StrideOf(const char* name, int node_count, int rank_count) {
  if (const char* const found = name == nullptr ? nullptr : std::strstr(name, "stride=")) {
    return std::max(0, std::atoi(found + std::strlen("stride=")));
  }
  if (node_count <= 1 || rank_count > node_count) return 1;
  for (const char* local : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
    if (Number(local) > 0) return Number(local);
  }
  return 0;
}

int64_t BytesOf(const char* datatype) {
  static const std::map<std::string, int64_t> sizes = {
      {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
      {"ncclFloat16", 2}, {"ncclBfloat16", 2}, {"ncclInt32", 4},      {"ncclUint32", 4},
      {"ncclFloat32", 4}, {"ncclInt64", 8},    {"ncclUint64", 8},     {"ncclFloat64", 8}};
  const auto found = sizes.find(datatype == nullptr ? "" : datatype);
  return found == sizes.end() ? 0 : found->second;
}

// Sets `shape`; returns false for operations that profiles do not contain.
bool ShapeOf(const char* function, int64_t size, int rank_count, PassiveShape& shape) {
  struct Known {
    const char* name;
    PassiveOperation operation;
    // Whether `count` is one rank's part; sizes are of the whole, as in nccl-tests.
    bool is_part;
  };
  static constexpr Known kKnown[] = {{"AllReduce", PassiveOperation::kAllReduce, false},
                                     {"AllGather", PassiveOperation::kAllGather, true},
                                     {"ReduceScatter", PassiveOperation::kReduceScatter, true},
                                     {"AlltoAll", PassiveOperation::kAllToAll, true},
                                     {"Broadcast", PassiveOperation::kBroadcast, false}};
  if (function == nullptr || size <= 0 || rank_count < 2) return false;
  for (const Known& known : kKnown) {
    if (std::strcmp(known.name, function) != 0) continue;
    shape.operation = known.operation;
    shape.participant_count = rank_count;
    shape.size_bytes = size * (known.is_part ? rank_count : 1);
    return true;
  }
  return false;
}

// Returns the folder for windows; if it is empty, nothing is recorded.
std::string Folder() {
  const char* const folder = std::getenv("PARPLAN_PASSIVE_SPOOL");
  return folder == nullptr ? "" : folder;
}

int Open(void** context, int* mask, const char* name, int node_count, int rank_count, int rank) {
  // The mask is one of the process: it is left as it is where nothing is to be recorded, or the
  // other communicators would be blind from then on.
  *context = nullptr;
  try {
    const std::string folder = Folder();
    if (folder.empty()) return nccl::kSuccess;
    auto communicator = std::make_unique<Communicator>();
    communicator->rank_count = rank_count;
    communicator->rank = rank;
    communicator->rank_stride = StrideOf(name, node_count, rank_count);
    const std::lock_guard<std::mutex> lock(recorder_mutex);
    mask_now.store(mask, std::memory_order_release);
    if (recorder_now.load(std::memory_order_relaxed) == nullptr) {
      PassiveOptions options;
      if (const int percent = Number("PARPLAN_PASSIVE_PERCENT"); percent > 0) {
        options.recorded = options.period * std::min(percent, 100) / 100;
      }
      options.switch_recording = SwitchRecording;
      options.folder = folder;
      options.rank = JobRank(rank);
      options.prefix = "nccl-" + std::to_string(::getpid()) + "-" +
                       std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
      if (const int seconds = Number("PARPLAN_PASSIVE_WINDOW_SECONDS"); seconds > 0) {
        options.window = std::chrono::seconds(seconds);
      }
      recorder_now.store(new PassiveRecorder(std::move(options)), std::memory_order_release);
    }
    // Later ones find it as the recorder has set it.
    if (communicator_count == 0) SwitchRecording(true);
    ++communicator_count;
    *context = communicator.release();
  } catch (...) {
    // Out of memory or threads: the job continues without being recorded.
  }
  return nccl::kSuccess;
}

int Close(void* context) {
  if (context == nullptr) return nccl::kSuccess;
  delete static_cast<Communicator*>(context);
  const std::lock_guard<std::mutex> lock(recorder_mutex);
  // The last communicator writes the last window, and leaves a mask of nothing.
  if (--communicator_count == 0) {
    delete recorder_now.exchange(nullptr, std::memory_order_acq_rel);
    SwitchRecording(false);
    mask_now.store(nullptr, std::memory_order_release);
  }
  return nccl::kSuccess;
}

template <typename Event>
int Start(void* context, void** handle, const Event* event) {
  *handle = nullptr;
  PassiveRecorder* const recorder = recorder_now.load(std::memory_order_acquire);
  if (context == nullptr || recorder == nullptr) return nccl::kSuccess;
  Communicator& communicator = *static_cast<Communicator*>(context);
  PassiveShape shape;
  shape.rank_stride = communicator.rank_stride;
  if (event->type == nccl::kKernelChannelEvent) {
    if (event->parent == nullptr) return nccl::kSuccess;
    const uint64_t operation = OperationOf(event->parent);
    recorder->operations().ChannelStarted(operation, event->kernel_channel.start);
    *handle = HandleOf(operation, true);
  } else if (event->type == nccl::kCollectiveEvent) {
    const nccl::CollectiveEvent& collective = event->collective;
    const int64_t size = static_cast<int64_t>(collective.count) * BytesOf(collective.datatype);
    if (shape.rank_stride < 1 || collective.channel_count == 0) return nccl::kSuccess;
    if (!ShapeOf(collective.function, size, communicator.rank_count, shape)) return nccl::kSuccess;
    *handle = HandleOf(recorder->operations().Start(shape, collective.channel_count), false);
  } else if (event->type == nccl::kPointToPointEvent) {
    // Recording the sender is enough.
    const nccl::PointToPointEvent& send = event->point_to_point;
    const int64_t size = static_cast<int64_t>(send.count) * BytesOf(send.datatype);
    const int distance = std::abs(send.peer - communicator.rank);
    if (send.function == nullptr || std::strcmp(send.function, "Send") != 0) return nccl::kSuccess;
    if (size <= 0 || distance == 0 || send.channel_count == 0) return nccl::kSuccess;
    if (shape.rank_stride < 1) return nccl::kSuccess;
    if (!communicator.CountsSendsTo(send.peer, recorder->operations())) return nccl::kSuccess;
    shape.operation = PassiveOperation::kSendReceive;
    shape.participant_count = 2;
    shape.rank_stride *= distance;
    shape.size_bytes = size;
    const uint64_t operation = recorder->operations().Start(shape, send.channel_count);
    communicator.NoteSend(send.peer, operation);
    *handle = HandleOf(operation, false);
  }
  return nccl::kSuccess;
}

int Stop(void* handle) {
  PassiveRecorder* const recorder = recorder_now.load(std::memory_order_acquire);
  if (handle != nullptr && recorder != nullptr && IsChannel(handle)) {
    recorder->ChannelDone(OperationOf(handle));
  }
  return nccl::kSuccess;
}

int RecordState(void* handle, int state, nccl::StateArguments* arguments) {
  PassiveRecorder* const recorder = recorder_now.load(std::memory_order_acquire);
  if (handle != nullptr && recorder != nullptr && arguments != nullptr && IsChannel(handle) &&
      state == nccl::kKernelChannelStop) {
    recorder->operations().ChannelStopped(OperationOf(handle), arguments->time);
  }
  return nccl::kSuccess;
}

int OpenV4(void** context, int* mask, const char* name, uint64_t /*id*/, int node_count,
           int rank_count, int rank, nccl::Logger /*logger*/) {
  return Open(context, mask, name, node_count, rank_count, rank);
}
int OpenV5(void** context, uint64_t /*id*/, int* mask, const char* name, int node_count,
           int rank_count, int rank, nccl::Logger /*logger*/) {
  return Open(context, mask, name, node_count, rank_count, rank);
}
int StartV4(void* context, void** handle, EventV4* event) { return Start(context, handle, event); }
int StartV5(void* context, void** handle, EventV5* event) { return Start(context, handle, event); }

}  // namespace
}  // namespace parplan

// The two symbols that NCCL looks up.
extern "C" {
__attribute__((visibility("default"))) parplan::nccl::ProfilerV4 ncclProfiler_v4 = {
    "parplan",      &parplan::OpenV4,      &parplan::StartV4,
    &parplan::Stop, &parplan::RecordState, &parplan::Close};
__attribute__((visibility("default"))) parplan::nccl::ProfilerV5 ncclProfiler_v5 = {
    "parplan",      &parplan::OpenV5,      &parplan::StartV5,
    &parplan::Stop, &parplan::RecordState, &parplan::Close};
}
