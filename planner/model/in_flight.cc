#include "planner/model/in_flight.h"

#include <algorithm>
#include <limits>

#include "planner/model/pass_order.h"

namespace parplan {
namespace {

// The interleaved order in closed form: passes come in groups of micro-batches, each group through
// all chunks, in reverse for backward passes. Counts here agree with `PassOrder`; a test compares
// them.
struct InterleavedOrder {
  explicit InterleavedOrder(const InterleavedDevice& device)
      : devices(device.pipeline_parallel_degree),
        chunks(device.virtual_stage_count),
        micro_batches(device.micro_batch_count),
        group(std::max(devices, device.micro_batch_group_size)),
        full_groups((micro_batches - 1) / group),
        last_size(micro_batches - full_groups * group) {}

  int64_t devices;
  int64_t chunks;
  int64_t micro_batches;
  // Micro-batches of a group, and how many groups have another behind them.
  int64_t group;
  int64_t full_groups;
  int64_t last_size;

  // Returns the micro-batches of a group, and the passes of each of its turns, missing ones
  // included.
  int64_t SizeOf(int64_t index) const { return index < full_groups ? group : last_size; }
  int64_t SlotsOf(int64_t index) const {
    return index < full_groups ? group : std::max(last_size, devices);
  }
  // Returns the number of the first pass of a group.
  int64_t BeginOf(int64_t index) const { return index * group * chunks; }
  int64_t passes() const { return BeginOf(full_groups) + SlotsOf(full_groups) * chunks; }

  // Returns the group of the pass with this number.
  int64_t GroupAt(int64_t number) const { return std::min(number / (group * chunks), full_groups); }

  // Returns how many of the first `count` passes are those of the `turn`-th chunk in each group.
  int64_t CountOf(int64_t turn, int64_t count) const {
    if (count <= 0) return 0;
    const int64_t index = GroupAt(count);
    const int64_t in_group = count - BeginOf(index) - turn * SlotsOf(index);
    return index * group + std::clamp<int64_t>(in_group, 0, SizeOf(index));
  }
};

// Returns the number of forward passes before the first backward pass.
int64_t LeadOf(const InterleavedDevice& device) {
  return WarmUpPassCount({.schedule = Schedule::kInterleaved,
                          .pipeline_parallel_degree = device.pipeline_parallel_degree,
                          .virtual_stage_count = device.virtual_stage_count,
                          .micro_batch_count = device.micro_batch_count,
                          .micro_batch_group_size = device.micro_batch_group_size},
                         device.device_index) +
         1;
}

// Walks the backward passes of one group, with the forward passes beside them, in pieces in which
// neither changes its chunk, so that the memory is a straight line over each piece. Makes `worst`
// the worst moment of the group if it is worse, and `worst_at` the number of backward passes before
// it. `lead` is the number of forward passes before the first backward pass.
void WalkGroup(const InterleavedOrder& order, int64_t lead, int64_t round,
               absl::Span<const Bytes> kept, absl::Span<const Bytes> extra, InFlightMoment& worst,
               int64_t& worst_at) {
  const int64_t passes = order.passes();
  int64_t done = order.BeginOf(round);  // backward passes
  // Position of the next forward pass: its group, turn in the group, and slot in the turn.
  const int64_t begin = std::min(lead + done, passes);
  int64_t group = order.GroupAt(begin);
  int64_t there = order.SizeOf(group);
  int64_t slots = order.SlotsOf(group);
  int64_t turn = (begin - order.BeginOf(group)) / slots;
  int64_t slot = begin - order.BeginOf(group) - turn * slots;
  Bytes sum;
  for (int64_t chunk = 0; chunk < order.chunks; ++chunk) {
    int64_t count = (group - round) * order.group;
    if (chunk < turn) count += there;
    if (chunk == turn) count += std::min(slot, there);
    sum += kept[chunk] * count;
  }
  InFlightMoment found = worst;
  int64_t found_at = worst_at;
  const int64_t size = order.SizeOf(round);
  for (int64_t chunk = order.chunks - 1; chunk >= 0; --chunk) {
    const Bytes more = extra.empty() ? Bytes() : extra[chunk];
    int64_t back_slot = 0;
    // The passes of an incomplete group come first.
    while (back_slot < size) {
      int64_t length = size - back_slot;
      Bytes change = Bytes() - kept[chunk];
      const bool goes_forward = lead + done < passes;
      if (goes_forward) {
        if (slot < there) {
          length = std::min(length, there - slot);
          change += kept[turn];
        } else {
          length = std::min(length, slots - slot);
        }
      }
      const auto look = [&](int64_t at) {
        const Bytes here = sum + change * (at - done);
        found.most_kept = std::max(found.most_kept, here);
        const Bytes needed = here + more;
        if (needed <= found.needed) return;
        found.needed = needed;
        found.kept = here;
        found.chunk_index = static_cast<int>(chunk);
        found_at = at;
      };
      look(done);
      look(done + length - 1);
      sum += change * length;
      done += length;
      back_slot += length;
      if (!goes_forward) continue;
      slot += length;
      if (slot < slots) continue;
      slot = 0;
      if (++turn < order.chunks) continue;
      turn = 0;
      ++group;
      there = order.SizeOf(group);
      slots = order.SlotsOf(group);
    }
    // Skips the missing passes of this turn, during which forward passes would go on. Passes are
    // only missing in the last group, whose forward passes are all done by then.
    done += order.SlotsOf(round) - size;
  }
  worst = found;
  worst_at = found_at;
}

}  // namespace

InFlightMoment WorstMoment(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                           absl::Span<const Bytes> extra, absl::Span<int64_t> counts) {
  const int64_t chunks = device.virtual_stage_count;
  InFlightMoment worst;
  worst.needed = Bytes::Of(std::numeric_limits<int64_t>::min());
  if (device.pipeline_parallel_degree == 1) {
    // One micro-batch goes forward through all chunks, and back.
    Bytes sum;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += kept[chunk];
    worst.most_kept = sum;
    for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      const Bytes needed = sum + (extra.empty() ? Bytes() : extra[chunk]);
      if (needed > worst.needed) {
        worst.needed = needed;
        worst.kept = sum;
        worst.chunk_index = static_cast<int>(chunk);
      }
      sum -= kept[chunk];
    }
    for (int64_t chunk = 0; chunk < static_cast<int64_t>(counts.size()); ++chunk) {
      counts[chunk] = chunk <= worst.chunk_index ? 1 : 0;
    }
    return worst;
  }

  // The backward passes of the first group contain the worst moment: in later groups the same
  // micro-batches are in flight or, towards the end, fewer. A last group of another size has other
  // forward passes beside the backward passes of the group before it, and of itself.
  const InterleavedOrder order(device);
  const int64_t lead = LeadOf(device);
  int64_t worst_at = 0;
  const bool has_smaller = order.last_size >= order.devices && order.last_size < order.group;
  const int64_t last_round = has_smaller ? order.full_groups : 0;
  for (int64_t round = 0; round <= last_round; round = std::max(round + 1, last_round - 1)) {
    WalkGroup(order, lead, round, kept, extra, worst, worst_at);
  }
  if (!counts.empty()) {
    const int64_t forward_count = std::min(lead + worst_at, order.passes());
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      counts[chunk] =
          order.CountOf(chunk, forward_count) - order.CountOf(chunks - 1 - chunk, worst_at);
    }
  }
  return worst;
}

Bytes InFlightPeak(const InterleavedDevice& device, absl::Span<const Bytes> kept,
                   absl::Span<int64_t> counts) {
  return WorstMoment(device, kept, {}, counts).needed;
}

}  // namespace parplan
