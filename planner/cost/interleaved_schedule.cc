// Interleaved 1F1B, tick by tick.
//
// In tick t, device r does forward pass number t - r and then backward pass number t - D + r of its
// order, where D = 2 (P - 1) + (V - 1) G is the warm-up of device 0. Both wait for passes that the
// previous and the next device of the ring did in tick t - 1: Megatron chose the warm-up
// accordingly. So one message per device and direction is all there is to remember, except across
// the wrap between the last device and the first. There a message comes G - P ticks before it is
// needed, or as many in the last group as that is larger than P.

#include <algorithm>
#include <cstring>

#include "planner/cost/pipeline_schedule.h"
#include "planner/cost/schedule_period.h"

namespace parplan {
namespace {

using internal::kNever;

// Position in the order of forward passes (or, with chunks reversed, backward passes) of one
// device: the chunk, and the micro-batch of the group.
struct Place {
  int chunk;
  int64_t slot;

  void Advance(int64_t slots, int chunks) {
    if (++slot < slots) return;
    slot = 0;
    chunk = chunk + 1 < chunks ? chunk + 1 : 0;
  }
};

// Two devices at once, in vector instructions that every 64-bit processor has.
using Pair = double __attribute__((vector_size(16)));

Pair Load(const double* from) {
  Pair pair;
  std::memcpy(&pair, from, sizeof(pair));
  return pair;
}
void Store(Pair pair, double* to) { std::memcpy(to, &pair, sizeof(pair)); }

double Later(double a, double b) { return a < b ? b : a; }
Pair Later(Pair a, Pair b) { return a < b ? b : a; }

// Runs the forward passes of all devices in one tick, and then their backward passes. A device
// waits only for passes of the tick before, so the iterations of a loop are independent.
struct BothPasses {
  const double* forward_work;
  const double* forward_send;
  const double* backward_work;
  const double* backward_send;
  double* free;
  double* forward_inbox;
  double* backward_inbox;
  double* forward_end;

  // Messages are assembled from neighbouring pairs, so that the next tick reads them in the pairs
  // in which they were written, which is faster than a read across two stores. Inlined in both its
  // callers: as a call of its own it makes steps a quarter slower.
  [[gnu::always_inline]] void operator()(int devices) const {
    const int even = devices - devices % 2;
    Pair sent_before = {};
    for (int r = 0; r < even; r += 2) {
      const Pair end = Later(Load(free + r), Load(forward_inbox + r)) + Load(forward_work + r);
      Store(end, forward_end + r);
      const Pair sent = end + Load(forward_send + r);
      Store(Pair{sent_before[1], sent[0]}, forward_inbox + r);
      sent_before = sent;
    }
    double last_sent = sent_before[1];
    if (even < devices) {
      const double end = Later(free[even], forward_inbox[even]) + forward_work[even];
      forward_end[even] = end;
      forward_inbox[even] = last_sent;
      last_sent = end + forward_send[even];
    }
    forward_inbox[devices] = last_sent;

    double sent_behind = 0.0;
    if (even < devices) {
      const double end = Later(forward_end[even], backward_inbox[devices]) + backward_work[even];
      free[even] = end;
      sent_behind = end + backward_send[even];
    }
    for (int r = even - 2; r >= 0; r -= 2) {
      const Pair end =
          Later(Load(forward_end + r), Load(backward_inbox + r + 1)) + Load(backward_work + r);
      Store(end, free + r);
      const Pair sent = end + Load(backward_send + r);
      Store(Pair{sent[1], sent_behind}, backward_inbox + r + 1);
      sent_behind = sent[0];
    }
    backward_inbox[0] = sent_behind;
  }
};

}  // namespace

template <bool kBlocking, bool kLargerGroups>
void ScheduleEvaluator::RunInterleaved(int virtual_stage_count, int64_t group_size,
                                       int64_t micro_batch_count) {
  const int devices = device_count_;
  const int chunks = virtual_stage_count;
  const int64_t group = group_size * chunks;
  const int64_t delay = int64_t{2} * (devices - 1) + int64_t{chunks - 1} * group_size;
  // The first pass of the last group, its micro-batches, and the passes of each of its turns. Those
  // that it lacks, if it has fewer micro-batches than there are devices, are left out.
  const int64_t full_groups = (micro_batch_count - 1) / group_size;
  const int64_t last_from = full_groups * group;
  const int64_t last_size = micro_batch_count - full_groups * group_size;
  const int64_t last_slots = std::max<int64_t>(last_size, devices);
  const int64_t passes = last_from + last_slots * chunks;
  const int64_t ragged_from = last_size < devices ? last_from : passes;
  const auto slots_at = [=](int64_t pass) -> int64_t {
    if constexpr (!kLargerGroups) return devices;
    return pass < last_from ? group_size : last_slots;
  };

  // Free times; arrivals of forward messages to r at [r], written by r - 1; of
  // backward messages to r at [r + 1], written by r + 1. One place more for the wrap.
  // Behind them, if messages wait at the wrap, those that the last device and the first sent in
  // the last ticks, by tick modulo the size of a group; so a round leaves each at its place.
  const int state_size = 3 * devices + 2;
  constexpr bool kWaits = !kBlocking && kLargerGroups;
  const int64_t whole_size = state_size + (kWaits ? 2 * group_size : 0);
  free_.assign(whole_size, 0.0);
  double* const free = free_.data();
  double* const forward_inbox = free + devices;
  double* const backward_inbox = forward_inbox + devices + 1;
  double* const forward_waiting = kWaits ? free + state_size : nullptr;
  double* const backward_waiting = kWaits ? forward_waiting + group_size : nullptr;
  // The first stage of the model gets "never" from the last, which delays nothing.
  // With blocking messages the same places hold the durations of the messages that r - 1 or r
  // sends.

  Place forward_place{0, 0};
  const int64_t start = ((-delay) % group + group) % group;
  Place backward_place{static_cast<int>(start / group_size), start % group_size};

  // Times of the passes each device is at; one device a tick goes to another chunk.
  rows_.resize(5 * static_cast<size_t>(devices));
  double* const forward_work = rows_.data();
  double* const forward_send = forward_work + devices;
  double* const backward_work = forward_send + devices;
  double* const backward_send = backward_work + devices;
  double* const forward_end = backward_send + devices;

  // Runs the forward passes of devices [begin, end).
  const auto go_forward = [=](int begin, int end) {
    for (int r = end - 1; r >= begin; --r) {
      if constexpr (kBlocking) {
        free[r] += forward_work[r];
        forward_inbox[r + 1] = forward_send[r];
      } else {
        const double time = std::max(free[r], forward_inbox[r]) + forward_work[r];
        free[r] = time;
        forward_inbox[r + 1] = time + forward_send[r];
      }
    }
  };
  const auto go_backward = [=](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      if constexpr (kBlocking) {
        free[r] += backward_work[r];
        backward_inbox[r] = backward_send[r];
      } else {
        const double time = std::max(free[r], backward_inbox[r + 1]) + backward_work[r];
        free[r] = time;
        backward_inbox[r] = time + backward_send[r];
      }
    }
  };
  // Runs both passes of all devices, the case of most ticks.
  const auto go_both = [=] {
    if constexpr (kBlocking) {
      for (int r = 0; r < devices; ++r) {
        free[r] = free[r] + forward_work[r] + backward_work[r];
        forward_inbox[r + 1] = forward_send[r];
        backward_inbox[r] = backward_send[r];
      }
    } else {
      BothPasses{forward_work, forward_send,  backward_work,  backward_send,
                 free,         forward_inbox, backward_inbox, forward_end}(devices);
    }
    forward_inbox[0] = forward_inbox[devices];
    backward_inbox[devices] = backward_inbox[0];
  };
  // Exchanges the messages of this tick between every device and the next one.
  const auto exchange = [=] {
    const double first = free[0];
    double own = first;
    double exchanged_before = kNever;
    for (int r = 0; r < devices; ++r) {
      const double next = r + 1 < devices ? free[r + 1] : first;
      const double slowest =
          std::max(forward_inbox[r + 1], backward_inbox[r + 1 < devices ? r + 1 : 0]);
      const double exchanged = std::max(own, next) + slowest;
      free[r] = std::max({own, exchanged_before, exchanged});
      exchanged_before = exchanged;
      own = next;
    }
    free[0] = std::max(free[0], exchanged_before);
  };

  const auto run_forward = [&](int64_t tick) {
    const int begin = static_cast<int>(std::max<int64_t>(0, tick - passes + 1));
    const int end = static_cast<int>(std::min<int64_t>(devices, tick + 1));
    if (tick < ragged_from) {
      go_forward(begin, end);
    } else {
      for (int r = end - 1; r >= begin; --r) {
        const int64_t in_group = tick - r - ragged_from;
        if (in_group < 0 || in_group % devices < last_size) go_forward(r, r + 1);
      }
    }
    if constexpr (!kBlocking) forward_inbox[0] = forward_inbox[devices];
  };
  const auto run_backward = [&](int64_t back) {
    const int begin = static_cast<int>(std::max<int64_t>(0, -back));
    const int end = static_cast<int>(std::min<int64_t>(devices, passes - back));
    if (back + devices - 1 < ragged_from) {
      go_backward(begin, end);
    } else {
      for (int r = begin; r < end; ++r) {
        const int64_t in_group = back + r - ragged_from;
        if (in_group < 0 || in_group % devices < last_size) go_backward(r, r + 1);
      }
    }
    if (back + devices - 1 >= last_from) {
      // The last micro-batch leaves at most one chunk of one device per tick.
      const int64_t in_group = back - last_from;
      const int64_t r = ((last_size - 1 - in_group) % last_slots + last_slots) % last_slots;
      const int64_t position = in_group + r;
      if (r < devices && position >= 0 && position < last_slots * chunks) {
        const int64_t chunk = chunks - 1 - position / last_slots;
        last_backward_end_[chunk * devices + r] = free[r];
      }
    }
    if constexpr (!kBlocking) backward_inbox[devices] = backward_inbox[0];
  };
  // Hands the first device and the last the messages that they need in this tick, if messages wait
  // at the wrap. The first and the last stage of the model need none.
  const auto take_waiting = [&](int64_t tick) {
    const auto sent = [=](const double* waiting, int64_t slots) {
      const int64_t sent_at = tick - (slots - devices + 1);
      return sent_at < 0 ? kNever : waiting[sent_at % group_size];
    };
    const bool is_first = forward_place.chunk == 0 || tick >= passes;
    forward_inbox[0] = is_first ? kNever : sent(forward_waiting, slots_at(tick));
    const int64_t back = tick - delay + devices - 1;
    const int64_t in_group = back < last_from ? back % group : back - last_from;
    const bool is_last = back < 0 || back >= passes || in_group < slots_at(back);
    backward_inbox[devices] = is_last ? kNever : sent(backward_waiting, slots_at(back));
  };

  const auto run = [&](int64_t tick) {
    if constexpr (kWaits) take_waiting(tick);
    // The device that begins another chunk forward, if any: the turns of a group are at least as
    // long as there are devices.
    if (!kLargerGroups || forward_place.slot < devices) {
      const int turning = static_cast<int>(forward_place.slot);
      const int stage = forward_place.chunk * devices + turning;
      forward_work[turning] = forward_[stage];
      forward_send[turning] = send_after_[stage];
    }
    forward_place.Advance(slots_at(tick), chunks);

    const int64_t back = tick - delay;
    const int64_t back_slots = slots_at(back);
    const int64_t back_slot = backward_place.slot;
    const int64_t until_turn = back_slot == 0 ? 0 : back_slots - back_slot;
    if (!kLargerGroups || until_turn < devices) {
      const int turning = static_cast<int>(until_turn);
      const int turn = backward_place.chunk + (back_slot == 0 ? 0 : 1);
      const int stage = (turn < chunks ? chunks - 1 - turn : chunks - 1) * devices + turning;
      backward_work[turning] = backward_[stage];
      backward_send[turning] = send_before_[stage];
    }
    backward_place.Advance(back_slots, chunks);

    if (tick >= delay && tick < ragged_from) {
      go_both();
    } else {
      if constexpr (kBlocking) std::fill(forward_inbox, free + state_size, kNever);
      run_forward(tick);
      run_backward(back);
    }
    if constexpr (kWaits) {
      forward_waiting[tick % group_size] = forward_inbox[devices];
      backward_waiting[tick % group_size] = backward_inbox[0];
    }
    if constexpr (kBlocking) exchange();
  };

  const int64_t end = passes + delay;
  const int64_t steady_begin = std::min(delay + 1, end);
  const int64_t steady_end = last_size == group_size ? passes : last_from;
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  internal::RunSteadily(steady_begin, steady_end, group, end, free,
                        kBlocking ? devices : static_cast<int>(whole_size), snapshot_, run);
}

template void ScheduleEvaluator::RunInterleaved<false, false>(int, int64_t, int64_t);
template void ScheduleEvaluator::RunInterleaved<false, true>(int, int64_t, int64_t);
template void ScheduleEvaluator::RunInterleaved<true, false>(int, int64_t, int64_t);
template void ScheduleEvaluator::RunInterleaved<true, true>(int, int64_t, int64_t);

}  // namespace parplan
