#include "planner/model/in_flight.h"

#include <algorithm>
#include <limits>

#include "planner/model/pass_order.h"

namespace parplan {
namespace {

// The interleaved order in closed form: passes come in groups of P micro-batches, each group
// through all chunks, in reverse for backward passes. Counts here agree with `PassOrder`; a test
// compares them.
struct InterleavedOrder {
  int64_t devices;
  int64_t chunks;
  int64_t micro_batches;

  int64_t passes() const { return (micro_batches + devices - 1) / devices * devices * chunks; }

  // Returns how many of the first `count` passes are those of the `turn`-th chunk in each group.
  int64_t CountOf(int64_t turn, int64_t count) const {
    if (count <= 0) return 0;
    const int64_t group = count / (devices * chunks);
    const int64_t before = std::min(group * devices, micro_batches);
    const int64_t group_size = std::min(devices, micro_batches - before);
    const int64_t in_group = count % (devices * chunks) - turn * devices;
    return before + std::clamp<int64_t>(in_group, 0, group_size);
  }
};

InterleavedOrder OrderOf(const InterleavedDevice& device) {
  return {device.pipeline_parallel_degree, device.virtual_stage_count, device.micro_batch_count};
}

// Returns the number of forward passes before the first backward pass.
int64_t LeadOf(const InterleavedDevice& device) {
  return WarmUpPassCount({.schedule = Schedule::kInterleaved,
                          .pipeline_parallel_degree = device.pipeline_parallel_degree,
                          .virtual_stage_count = device.virtual_stage_count,
                          .micro_batch_count = device.micro_batch_count},
                         device.device_index) +
         1;
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

  // One round of backward passes contains the worst moment: in later rounds the same micro-batches
  // are in flight or, towards the end, fewer. The round and the forward passes beside it are walked
  // in pieces in which neither changes its chunk, so that the sum is a straight line over each
  // piece.
  const InterleavedOrder order = OrderOf(device);
  const int64_t devices = order.devices;
  const int64_t passes = order.passes();
  const int64_t round = devices * chunks;
  const int64_t lead = LeadOf(device);
  const int64_t begin = std::min(lead, passes);
  const int64_t first_group_size = std::min(devices, order.micro_batches);
  const int64_t whole_groups = order.micro_batches / devices;
  const int64_t last_group_size = order.micro_batches - whole_groups * devices;
  const auto group_size = [=](int64_t group) {
    return group < whole_groups ? devices : last_group_size;
  };

  // Position of the next forward pass: its group, turn in the group, and slot in the turn.
  int64_t group = begin / round;
  int64_t turn = (begin - group * round) / devices;
  int64_t slot = begin - group * round - turn * devices;
  Bytes sum;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    int64_t count = std::min(group * devices, order.micro_batches);
    if (chunk < turn) count += group_size(group);
    if (chunk == turn) count += std::min(slot, group_size(group));
    sum += kept[chunk] * count;
  }
  int64_t worst_at = 0;
  int64_t done = 0;  // backward passes
  for (int64_t back_turn = 0; back_turn < chunks; ++back_turn) {
    const int64_t chunk = chunks - 1 - back_turn;
    int64_t back_slot = 0;
    // The passes of an incomplete group come first.
    while (back_slot < first_group_size) {
      int64_t length = first_group_size - back_slot;
      Bytes change = Bytes() - kept[chunk];
      const bool goes_forward = lead + done < passes;
      if (goes_forward) {
        const int64_t size = group_size(group);
        if (slot < size) {
          length = std::min(length, size - slot);
          change += kept[turn];
        } else {
          length = std::min(length, devices - slot);
        }
      }
      const auto look = [&](int64_t at) {
        const Bytes here = sum + change * (at - done);
        worst.most_kept = std::max(worst.most_kept, here);
        const Bytes needed = here + (extra.empty() ? Bytes() : extra[chunk]);
        if (needed <= worst.needed) return;
        worst.needed = needed;
        worst.kept = here;
        worst.chunk_index = static_cast<int>(chunk);
        worst_at = at;
      };
      look(done);
      look(done + length - 1);
      sum += change * length;
      done += length;
      back_slot += length;
      if (goes_forward) {
        slot += length;
        if (slot == devices) {
          slot = 0;
          if (++turn == chunks) {
            turn = 0;
            ++group;
          }
        }
      }
    }
    // Skips the missing passes of this turn, during which forward passes would go on. Passes are
    // only missing if there are fewer micro-batches than devices; then there is no other group, and
    // all forward passes are done.
    done += devices - first_group_size;
  }
  if (!counts.empty()) {
    const int64_t forward_count = std::min(lead + worst_at, passes);
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
