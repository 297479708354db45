// Pass by pass: the slow and plain form of what pipeline_schedule.cc evaluates.

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan {
namespace {

// A forward or backward pass; none where `stage_index` is negative.
struct Pass {
  int stage_index = -1;
  int64_t micro_batch_index = 0;
  bool exists() const { return stage_index >= 0; }
};

// Puts all passes into ticks, such that what a pass waits for is in an earlier
// tick, and such that ordering a device's passes by tick, forward before
// backward, gives the order of the schedule. Sender and receiver of a message
// exchange it at the end of the same tick.
class Ticks {
 public:
  Ticks(const PipelineRules& rules, int stage_count, int64_t micro_batch_count)
      : devices_(stage_count / rules.virtual_stage_count),
        chunks_(rules.virtual_stage_count),
        micro_batches_(micro_batch_count),
        kind_(devices_ == 1                        ? Kind::kAlone
              : rules.schedule == Schedule::kGpipe ? Kind::kGpipe
              : chunks_ > 1                        ? Kind::kInterleaved
                                                   : Kind::kOneForwardOneBackward) {}

  int64_t count() const {
    switch (kind_) {
      case Kind::kAlone:
        return 2 * chunks_ * micro_batches_;
      case Kind::kGpipe:
        return 2 * FlowTicks();
      case Kind::kOneForwardOneBackward:
        return 2 * (micro_batches_ + devices_ - 1);
      case Kind::kInterleaved:
        return Groups() * GroupSize() + Delay();
    }
    return 0;
  }

  Pass Forward(int64_t tick, int device) const {
    switch (kind_) {
      case Kind::kAlone: {
        const int64_t chunk = tick % (2 * chunks_);
        return chunk < chunks_ ? Pass{static_cast<int>(chunk), tick / (2 * chunks_)} : Pass{};
      }
      case Kind::kGpipe:
      case Kind::kOneForwardOneBackward:
        return EverySecond(tick - device, device);
      case Kind::kInterleaved:
        return Interleaved(tick - device, device, /*is_backward=*/false);
    }
    return {};
  }

  Pass Backward(int64_t tick, int device) const {
    switch (kind_) {
      case Kind::kAlone: {
        const int64_t chunk = 2 * chunks_ - 1 - tick % (2 * chunks_);
        return chunk < chunks_ ? Pass{static_cast<int>(chunk), tick / (2 * chunks_)} : Pass{};
      }
      case Kind::kGpipe:
        return EverySecond(tick - FlowTicks() - (devices_ - 1 - device), device);
      case Kind::kOneForwardOneBackward:
        return EverySecond(tick - (2 * devices_ - 1 - device), device);
      case Kind::kInterleaved:
        return Interleaved(tick - Delay() + device, device, /*is_backward=*/true);
    }
    return {};
  }

 private:
  enum class Kind { kAlone, kGpipe, kOneForwardOneBackward, kInterleaved };

  // Ticks in which all micro-batches go through all stages one way.
  int64_t FlowTicks() const { return 2 * (micro_batches_ - 1) + devices_; }
  int64_t GroupSize() const { return static_cast<int64_t>(devices_) * chunks_; }
  int64_t Groups() const { return (micro_batches_ + devices_ - 1) / devices_; }
  // Forward passes of device 0 before its first backward pass.
  int64_t Delay() const { return 2 * (devices_ - 1) + (chunks_ - 1) * int64_t{devices_}; }

  Pass EverySecond(int64_t position, int device) const {
    if (position < 0 || position % 2 != 0 || position / 2 >= micro_batches_) return {};
    return {device, position / 2};
  }

  Pass Interleaved(int64_t position, int device, bool is_backward) const {
    if (position < 0) return {};
    const int64_t micro_batch = position / GroupSize() * devices_ + position % devices_;
    if (micro_batch >= micro_batches_) return {};
    const int chunk = static_cast<int>(position % GroupSize() / devices_);
    return {(is_backward ? chunks_ - 1 - chunk : chunk) * devices_ + device, micro_batch};
  }

  int devices_;
  int chunks_;
  int64_t micro_batches_;
  Kind kind_;
};

class Player {
 public:
  Player(const PipelineRules& rules, absl::Span<const StageTimes> stages, int64_t micro_batch_count)
      : blocking_(rules.blocking_messages),
        stages_(stages),
        micro_batches_(micro_batch_count),
        ticks_(rules, static_cast<int>(stages.size()), micro_batch_count),
        devices_(static_cast<int>(stages.size()) / rules.virtual_stage_count),
        free_(devices_),
        forward_arrival_(stages.size() * static_cast<size_t>(micro_batch_count)),
        backward_arrival_(forward_arrival_.size()) {}

  std::vector<PipelineEvent> Play() {
    std::vector<PipelineEvent> events;
    std::vector<Seconds> exchange(devices_);
    for (int64_t tick = 0; tick < ticks_.count(); ++tick) {
      std::fill(exchange.begin(), exchange.end(), kNoMessage);
      for (int device = 0; device < devices_; ++device) {
        const Pass forward = ticks_.Forward(tick, device);
        if (forward.exists()) {
          events.push_back(Do(forward, device, /*is_backward=*/false));
          const int stage = forward.stage_index;
          if (stage + 1 < static_cast<int>(stages_.size())) {
            Send(stages_[stage].send, events.back().end,
                 forward_arrival_[Slot(stage + 1, forward.micro_batch_index)], exchange[device]);
          }
        }
        const Pass backward = ticks_.Backward(tick, device);
        if (backward.exists()) {
          events.push_back(Do(backward, device, /*is_backward=*/true));
          const int stage = backward.stage_index;
          if (stage > 0) {
            Send(stages_[stage - 1].send, events.back().end,
                 backward_arrival_[Slot(stage - 1, backward.micro_batch_index)],
                 exchange[(device + devices_ - 1) % devices_]);
          }
        }
      }
      if (blocking_ && devices_ > 1) Exchange(exchange);
    }
    return events;
  }

 private:
  static constexpr Seconds kNoMessage = Seconds::Of(-std::numeric_limits<double>::infinity());

  size_t Slot(int stage, int64_t micro_batch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(micro_batches_) +
           static_cast<size_t>(micro_batch);
  }

  PipelineEvent Do(const Pass& pass, int device, bool is_backward) {
    const size_t slot = Slot(pass.stage_index, pass.micro_batch_index);
    const Seconds start =
        std::max(free_[device], is_backward ? backward_arrival_[slot] : forward_arrival_[slot]);
    const StageTimes& stage = stages_[pass.stage_index];
    free_[device] = start + (is_backward ? stage.backward : stage.forward);
    return {pass.stage_index, pass.micro_batch_index, is_backward, start, free_[device]};
  }

  // `slowest` is the longest message at the end of the tick between two devices.
  void Send(Seconds duration, Seconds now, Seconds& arrival, Seconds& slowest) const {
    if (devices_ == 1) return;
    if (!blocking_) arrival = now + duration;
    slowest = std::max(slowest, duration);
  }

  void Exchange(const std::vector<Seconds>& slowest) {
    const std::vector<Seconds> ready = free_;
    for (int device = 0; device < devices_; ++device) {
      const int next = (device + 1) % devices_;
      const Seconds end = std::max(ready[device], ready[next]) + slowest[device];
      free_[device] = std::max(free_[device], end);
      free_[next] = std::max(free_[next], end);
    }
  }

  const bool blocking_;
  const absl::Span<const StageTimes> stages_;
  const int64_t micro_batches_;
  const Ticks ticks_;
  const int devices_;
  std::vector<Seconds> free_;
  std::vector<Seconds> forward_arrival_;
  std::vector<Seconds> backward_arrival_;
};

}  // namespace

std::vector<PipelineEvent> PipelineEvents(const PipelineRules& rules,
                                          absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count) {
  PARPLAN_CHECK(!stages.empty() && micro_batch_count > 0);
  std::vector<PipelineEvent> events = Player(rules, stages, micro_batch_count).Play();
  std::stable_sort(
      events.begin(), events.end(),
      [](const PipelineEvent& a, const PipelineEvent& b) { return a.stage_index < b.stage_index; });
  return events;
}

std::vector<PipelineEvent> PipelineEvents(Schedule schedule, absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count) {
  return PipelineEvents(PipelineRules{.schedule = schedule}, stages, micro_batch_count);
}

}  // namespace parplan
