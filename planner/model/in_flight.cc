#include "planner/model/in_flight.h"

#include <algorithm>

namespace parplan {
namespace {

// Forward passes, or backward passes with the chunks reversed, come by groups of P
// micro-batches, in each through all chunks.
struct Order {
  int64_t devices;
  int64_t chunks;
  int64_t micro_batches;

  int64_t passes() const { return (micro_batches + devices - 1) / devices * devices * chunks; }

  // Passes of the chunk that is `turn`-th in each group, of the first `count`.
  int64_t CountOf(int64_t turn, int64_t count) const {
    if (count <= 0) return 0;
    const int64_t group = count / (devices * chunks);
    const int64_t before = std::min(group * devices, micro_batches);
    const int64_t group_size = std::min(devices, micro_batches - before);
    const int64_t in_group = count % (devices * chunks) - turn * devices;
    return before + std::clamp<int64_t>(in_group, 0, group_size);
  }
};

Order OrderOf(const InterleavedDevice& device) {
  return {device.pipeline_parallel_degree, device.virtual_stage_count, device.micro_batch_count};
}

// Forward passes before the first backward pass, that before it included.
int64_t LeadOf(const InterleavedDevice& device) {
  const int64_t behind = device.pipeline_parallel_degree - device.device_index - 1;
  // With one chunk it is plain 1F1B.
  if (device.virtual_stage_count == 1) return behind + 1;
  return 2 * behind + int64_t{device.virtual_stage_count - 1} * device.pipeline_parallel_degree + 1;
}

}  // namespace

int64_t InFlightAfter(const InterleavedDevice& device, int chunk_index, int64_t forward_count) {
  if (device.pipeline_parallel_degree == 1) return 1;
  const Order order = OrderOf(device);
  const int64_t backward_turn = order.chunks - 1 - chunk_index;
  return order.CountOf(chunk_index, forward_count) -
         order.CountOf(backward_turn, forward_count - LeadOf(device));
}

Bytes InFlightPeak(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                   absl::Span<int64_t> counts) {
  const Order order = OrderOf(device);
  const int64_t devices = order.devices;
  // Up to the first backward pass the device only adds, and a round later the steady
  // state repeats itself. Between, the sum turns where a run of a chunk begins or ends.
  const int64_t begin = std::min(LeadOf(device), order.passes());
  const int64_t end = std::min(LeadOf(device) + devices * order.chunks, order.passes());
  const int64_t last_group_size = order.micro_batches % devices;
  Bytes peak = Bytes::Of(-1);
  int64_t peak_at = begin;
  const auto look = [&](int64_t forward_count) {
    if (forward_count < begin || forward_count > end) return;
    Bytes sum;
    for (int chunk = 0; chunk < device.virtual_stage_count; ++chunk) {
      sum += kept[chunk] * InFlightAfter(device, chunk, forward_count);
    }
    if (sum > peak || (sum == peak && forward_count < peak_at)) {
      peak = sum;
      peak_at = forward_count;
    }
  };
  look(begin);
  for (int64_t turn = 0; turn <= 2 * order.chunks + 1; ++turn) {
    for (int64_t part : {int64_t{0}, last_group_size}) {
      look((begin / devices + turn) * devices + part);
      look(LeadOf(device) + turn * devices + part);
    }
  }
  for (size_t chunk = 0; chunk < counts.size(); ++chunk) {
    counts[chunk] = InFlightAfter(device, static_cast<int>(chunk), peak_at);
  }
  return peak;
}

}  // namespace parplan
