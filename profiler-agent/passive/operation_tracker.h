// Operations under way, from their start on the host to the end of their last channel on the
// device, without a lock and without allocating.

#ifndef PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_
#define PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace parplan {

// Numbers of `v1::Collective`, which this library must not link.
enum class PassiveOperation : int32_t {
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllToAll = 4,
  kSendReceive = 5,
  kBroadcast = 6,
};

// What is measured of one operation.
struct PassiveShape {
  PassiveOperation operation = PassiveOperation::kAllReduce;
  int32_t participant_count = 0;
  int32_t rank_stride = 1;
  // As nccl-tests counts.
  int64_t size_bytes = 0;
  friend auto operator<=>(const PassiveShape&, const PassiveShape&) = default;
};

struct PassiveSample {
  PassiveShape shape;
  // From the start of the first channel to the end of the last.
  int64_t nanoseconds = 0;
};

// Names of operations are numbers that are never used twice; one whose place was taken by a
// later operation, because too many are under way, is forgotten, and what is said of it later
// does nothing. Safe to use from any thread; no call waits.
class OperationTracker {
 public:
  static constexpr size_t kPlaceCount = size_t{1} << 13;

  OperationTracker();

  // REQUIRES: `channel_count` is above 0.
  uint64_t Start(const PassiveShape& shape, int channel_count);
  void ChannelStarted(uint64_t operation, uint64_t time);
  void ChannelStopped(uint64_t operation, uint64_t time);
  // A channel's event is over; with the last one comes what was measured, if it can be: both
  // times of at least one channel.
  std::optional<PassiveSample> ChannelDone(uint64_t operation);

 private:
  // Everything is atomic because a late word about a forgotten operation may read while the
  // place is filled anew.
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

  // Null when the operation is forgotten.
  Place* Find(uint64_t operation);

  std::atomic<uint64_t> count_ = 0;
  const std::unique_ptr<std::array<Place, kPlaceCount>> places_;
};

// Samples on their way to whoever adds them up: any number of threads put, one takes.
// Bounded: one that finds no room is lost and counted. No call waits.
class SampleQueue {
 public:
  static constexpr size_t kLength = size_t{1} << 14;

  SampleQueue();

  void Put(const PassiveSample& sample);
  std::optional<PassiveSample> Take();
  int64_t lost_count() const { return lost_.load(std::memory_order_relaxed); }

 private:
  // Bounded queue by Dmitry Vyukov: a cell's turn says whether it is free or full in this
  // round.
  struct Cell {
    std::atomic<uint64_t> turn;
    PassiveSample sample;
  };

  const std::unique_ptr<std::array<Cell, kLength>> cells_;
  std::atomic<uint64_t> put_ = 0;
  uint64_t taken_ = 0;  // Of the taking thread.
  std::atomic<int64_t> lost_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PASSIVE_OPERATION_TRACKER_H_
