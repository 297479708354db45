// Interleaved 1F1B, tick by tick.
//
// In tick t, device r does forward pass number t - r and then backward pass number t - D + r of its
// order, where D = 2 (P - 1) + (V - 1) P is the warm-up of device 0. Both wait for passes that the
// previous and the next device of the ring did in tick t - 1, also across the wrap from the last
// device to the first: Megatron chose the warm-up accordingly. So one message per device and
// direction is all there is to remember.

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
  int slot;

  void Advance(int slots, int chunks) {
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
  // in which they were written, which is faster than a read across two stores.
  void operator()(int devices) const {
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

template <bool kBlocking>
void ScheduleEvaluator::RunInterleaved(int virtual_stage_count, int64_t micro_batch_count) {
  const int devices = device_count_;
  const int chunks = virtual_stage_count;
  const int64_t group = int64_t{devices} * chunks;
  const int64_t groups = (micro_batch_count + devices - 1) / devices;
  const int64_t passes = groups * group;
  const int64_t delay = int64_t{2} * (devices - 1) + int64_t{chunks - 1} * devices;
  // The first pass of a last group that is not full, and its micro-batches.
  const int last_group_size = static_cast<int>(micro_batch_count - (groups - 1) * devices);
  const int64_t ragged_from = last_group_size < devices ? passes - group : passes;

  // Free times; arrivals of forward messages to r at [r], written by r - 1; of
  // backward messages to r at [r + 1], written by r + 1. One place more for the wrap.
  const int state_size = 3 * devices + 2;
  free_.assign(state_size, 0.0);
  double* const free = free_.data();
  double* const forward_inbox = free + devices;
  double* const backward_inbox = forward_inbox + devices + 1;
  // The first stage of the model gets "never" from the last, which delays nothing.
  // With blocking messages the same places hold the durations of the messages that r - 1 or r
  // sends.

  Place forward_place{0, 0};
  const int64_t start = ((-delay) % group + group) % group;
  Place backward_place{static_cast<int>(start / devices), static_cast<int>(start % devices)};

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

  const auto run_forward = [&](int64_t tick, int slot) {
    const int begin = static_cast<int>(std::max<int64_t>(0, tick - passes + 1));
    const int end = static_cast<int>(std::min<int64_t>(devices, tick + 1));
    if (tick < ragged_from) {
      go_forward(begin, end);
    } else {
      for (int r = end - 1; r >= begin; --r) {
        const int own_slot = r <= slot ? slot - r : slot - r + devices;
        if (tick - r < ragged_from || own_slot < last_group_size) go_forward(r, r + 1);
      }
    }
    if constexpr (!kBlocking) forward_inbox[0] = forward_inbox[devices];
  };
  const auto run_backward = [&](int64_t back, int slot) {
    const int begin = static_cast<int>(std::max<int64_t>(0, -back));
    const int end = static_cast<int>(std::min<int64_t>(devices, passes - back));
    if (back + devices - 1 < ragged_from) {
      go_backward(begin, end);
    } else {
      for (int r = begin; r < end; ++r) {
        const int own_slot = (slot + r) % devices;
        if (back + r < ragged_from || own_slot < last_group_size) go_backward(r, r + 1);
      }
    }
    if (back + devices - 1 >= passes - group) {
      // The last micro-batch leaves one chunk of one device per tick.
      const int r = (last_group_size - 1 - slot + devices) % devices;
      const int64_t position = back + r - (passes - group);
      if (position >= 0 && position < group) {
        const int chunk = chunks - 1 - static_cast<int>(position / devices);
        last_backward_end_[chunk * devices + r] = free[r];
      }
    }
    if constexpr (!kBlocking) backward_inbox[devices] = backward_inbox[0];
  };

  const auto run = [&](int64_t tick) {
    const int slot = forward_place.slot;
    const int stage = forward_place.chunk * devices + slot;
    forward_work[slot] = forward_[stage];
    forward_send[slot] = send_after_[stage];
    forward_place.Advance(devices, chunks);

    const int back_slot = backward_place.slot;
    const int turning = back_slot == 0 ? 0 : devices - back_slot;
    const int turn = backward_place.chunk + (back_slot == 0 ? 0 : 1);
    const int back_stage = (turn < chunks ? chunks - 1 - turn : chunks - 1) * devices + turning;
    backward_work[turning] = backward_[back_stage];
    backward_send[turning] = send_before_[back_stage];
    backward_place.Advance(devices, chunks);

    if (tick >= delay && tick < ragged_from) {
      go_both();
    } else {
      if constexpr (kBlocking) std::fill(forward_inbox, free + state_size, kNever);
      run_forward(tick, slot);
      run_backward(tick - delay, back_slot);
    }
    if constexpr (kBlocking) exchange();
  };

  const int64_t end = passes + delay;
  const int64_t steady_begin = std::min(delay + 1, end);
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  internal::RunSteadily(steady_begin, std::min(ragged_from, passes), group, end, free,
                        kBlocking ? devices : state_size, snapshot_, run);
}

template void ScheduleEvaluator::RunInterleaved<false>(int, int64_t);
template void ScheduleEvaluator::RunInterleaved<true>(int, int64_t);

}  // namespace parplan
