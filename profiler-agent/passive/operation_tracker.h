// Tracks operations from their start on the host to the end of their last channel on the device,
// without locks and without allocation. `PassiveRecorder` has one tracker and one queue.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace parplan {

// Values of `v1::Collective`, which this library must not link.
enum class PassiveOperation : int32_t {
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllToAll = 4,
  kSendReceive = 5,
  kBroadcast = 6,
};

// The kind and size of an operation.
struct PassiveShape {
  PassiveOperation operation = PassiveOperation::kAllReduce;
  // Ranks of the group, and the distance from one to the next in ranks of the job.
  int32_t participant_count = 0;
  int32_t rank_stride = 1;
  // Message size as nccl-tests counts it: the bytes of the whole buffer, not one rank's share.
  int64_t size_bytes = 0;
  friend auto operator<=>(const PassiveShape&, const PassiveShape&) = default;
};

// The time that one operation took on the device.
struct PassiveSample {
  PassiveShape shape;
  // Time from the start of the first channel to the end of the last.
  int64_t nanoseconds = 0;
};

// A table of running operations. Operations are numbered and no number is reused. If too many run
// at once, a later operation takes the slot of an earlier one, which is forgotten; later calls for
// it do nothing. Safe to use from any thread; no call blocks.
class OperationTracker {
 public:
  // Operations tracked at once. Not measured: far more than a communicator keeps in flight, at
  // about 0.5 MB of memory.
  static constexpr size_t kPlaceCount = size_t{1} << 13;

  OperationTracker();

  // Begins an operation and returns its number, from 1. REQUIRES: `channel_count` is above 0. That
  // is not checked: an operation without channels never gives a sample.
  uint64_t Start(const PassiveShape& shape, int channel_count);
  // Forgets an operation: later calls for it do nothing.
  void Forget(uint64_t operation);
  // Record that a channel began or ended at `time`, nanoseconds of the device's clock.
  void ChannelStarted(uint64_t operation, uint64_t time);
  void ChannelStopped(uint64_t operation, uint64_t time);
  // Ends a channel; to be called once for each. The last channel of an operation returns the
  // sample, if at least one channel reported its start and one, at a later time, its end.
  std::optional<PassiveSample> ChannelDone(uint64_t operation);

 private:
  // All members are atomic because a late call for a forgotten operation may read a slot while it
  // is filled again.
  struct Place {
    std::atomic<uint64_t> operation = 0;
    std::atomic<PassiveOperation> kind = PassiveOperation::kAllReduce;
    std::atomic<int32_t> participant_count = 0;
    std::atomic<int32_t> rank_stride = 0;
    std::atomic<int64_t> size_bytes = 0;
    std::atomic<int32_t> open_channel_count = 0;
    std::atomic<uint64_t> first = 0;
    std::atomic<uint64_t> last = 0;
  };

  // Returns null if the operation is forgotten.
  Place* Find(uint64_t operation);

  std::atomic<uint64_t> count_ = 0;
  const std::unique_ptr<std::array<Place, kPlaceCount>> places_;
};

// A bounded queue of samples with many producers and one consumer. A sample that finds no room is
// dropped and counted. No call blocks.
class SampleQueue {
 public:
  // Samples of about a second of a busy job; the recorder drains the queue every second.
  static constexpr size_t kLength = size_t{1} << 14;

  SampleQueue();

  // Adds a sample, or drops it if kLength are waiting; safe to call from any thread.
  void Put(const PassiveSample& sample);
  // Returns the oldest sample, or nothing; for the consumer alone.
  std::optional<PassiveSample> Take();
  // Samples dropped so far.
  int64_t lost_count() const { return lost_.load(std::memory_order_relaxed); }

 private:
  // The bounded queue of Dmitry Vyukov: a cell's turn says whether the cell is free or full in this
  // round.
  struct Cell {
    std::atomic<uint64_t> turn;
    PassiveSample sample;
  };

  const std::unique_ptr<std::array<Cell, kLength>> cells_;
  std::atomic<uint64_t> put_ = 0;
  uint64_t taken_ = 0;  // Used by the consumer only.
  std::atomic<int64_t> lost_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_
