#include "profiler-agent/passive/operation_tracker.h"

#include <limits>

namespace parplan {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

void Lower(std::atomic<uint64_t>& value, uint64_t to) {
  uint64_t now = value.load(kRelaxed);
  while (to < now && !value.compare_exchange_weak(now, to, kRelaxed)) {
  }
}

void Raise(std::atomic<uint64_t>& value, uint64_t to) {
  uint64_t now = value.load(kRelaxed);
  while (to > now && !value.compare_exchange_weak(now, to, kRelaxed)) {
  }
}

}  // namespace

OperationTracker::OperationTracker()
    : places_(std::make_unique<std::array<Place, kPlaceCount>>()) {}

uint64_t OperationTracker::Start(const PassiveShape& shape, int channel_count) {
  const uint64_t operation = count_.fetch_add(1, kRelaxed) + 1;
  Place& place = (*places_)[operation % kPlaceCount];
  // Release stores in this order: a reader that sees one of these values and then finds its own
  // number in `operation` has read values of that operation.
  place.operation.store(0, kRelaxed);
  place.kind.store(shape.operation, kRelease);
  place.participant_count.store(shape.participant_count, kRelease);
  place.rank_stride.store(shape.rank_stride, kRelease);
  place.size_bytes.store(shape.size_bytes, kRelease);
  place.open_channel_count.store(channel_count, kRelease);
  place.first.store(std::numeric_limits<uint64_t>::max(), kRelease);
  place.last.store(0, kRelease);
  place.operation.store(operation, kRelease);
  return operation;
}

OperationTracker::Place* OperationTracker::Find(uint64_t operation) {
  Place& place = (*places_)[operation % kPlaceCount];
  return place.operation.load(kAcquire) == operation ? &place : nullptr;
}

void OperationTracker::Forget(uint64_t operation) {
  (*places_)[operation % kPlaceCount].operation.compare_exchange_strong(operation, 0, kRelaxed);
}

void OperationTracker::ChannelStarted(uint64_t operation, uint64_t time) {
  if (Place* const place = Find(operation)) Lower(place->first, time);
}

void OperationTracker::ChannelStopped(uint64_t operation, uint64_t time) {
  if (Place* const place = Find(operation)) Raise(place->last, time);
}

std::optional<PassiveSample> OperationTracker::ChannelDone(uint64_t operation) {
  Place* const place = Find(operation);
  if (place == nullptr) return std::nullopt;
  if (place->open_channel_count.fetch_sub(1, std::memory_order_acq_rel) != 1) return std::nullopt;
  const uint64_t first = place->first.load(kAcquire);
  const uint64_t last = place->last.load(kAcquire);
  const PassiveSample sample = {
      .shape = {.operation = place->kind.load(kAcquire),
                .participant_count = place->participant_count.load(kAcquire),
                .rank_stride = place->rank_stride.load(kAcquire),
                .size_bytes = place->size_bytes.load(kAcquire)},
      .nanoseconds = static_cast<int64_t>(last - first)};
  // The slot may have been reused while it was read.
  if (place->operation.load(kRelaxed) != operation || last <= first) return std::nullopt;
  return sample;
}

SampleQueue::SampleQueue() : cells_(std::make_unique<std::array<Cell, kLength>>()) {
  for (size_t i = 0; i < kLength; ++i) (*cells_)[i].turn.store(i, kRelaxed);
}

void SampleQueue::Put(const PassiveSample& sample) {
  uint64_t position = put_.load(kRelaxed);
  while (true) {
    Cell& cell = (*cells_)[position % kLength];
    const uint64_t turn = cell.turn.load(kAcquire);
    if (turn == position) {
      if (!put_.compare_exchange_weak(position, position + 1, kRelaxed)) continue;
      cell.sample = sample;
      cell.turn.store(position + 1, kRelease);
      return;
    }
    if (turn < position) {  // The cell is still full from the last round.
      lost_.fetch_add(1, kRelaxed);
      return;
    }
    position = put_.load(kRelaxed);
  }
}

std::optional<PassiveSample> SampleQueue::Take() {
  Cell& cell = (*cells_)[taken_ % kLength];
  if (cell.turn.load(kAcquire) != taken_ + 1) return std::nullopt;
  const PassiveSample sample = cell.sample;
  cell.turn.store(taken_ + kLength, kRelease);
  ++taken_;
  return sample;
}

}  // namespace parplan
