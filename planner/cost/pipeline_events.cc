// Times the passes of a pipeline one by one, in the order of planner/model/pass_order.h: the slow
// and plain form of what pipeline_schedule.cc evaluates.

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/pass_order.h"

namespace parplan {
namespace {

// Passes of all devices by tick, so that sender and receiver of a message meet at the end of the
// same tick.
class Ticks {
 public:
  explicit Ticks(const PipelineShape& shape) : next_(shape.pipeline_parallel_degree) {
    for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
      orders_.push_back(PassOrder(shape, device));
      count_ = std::max(count_, orders_.back().back().tick + 1);
    }
  }

  int64_t count() const { return count_; }

  // Returns the device's next pass if it is in `tick`, and goes on to the one after it.
  const PipelinePass* Take(int64_t tick, int device) {
    size_t& next = next_[device];
    if (next == orders_[device].size() || orders_[device][next].tick != tick) return nullptr;
    return &orders_[device][next++];
  }

 private:
  // [device][pass]
  std::vector<std::vector<PipelinePass>> orders_;
  // [device] passes done.
  std::vector<size_t> next_;
  int64_t count_ = 0;
};

class Player {
 public:
  Player(const PipelineRules& rules, absl::Span<const StageTimes> stages, int64_t micro_batch_count)
      : blocking_(rules.blocking_messages),
        serial_(rules.serial_messages && rules.virtual_stage_count == 1),
        stages_(stages),
        micro_batches_(micro_batch_count),
        devices_(static_cast<int>(stages.size()) / rules.virtual_stage_count),
        ticks_({.schedule = rules.schedule,
                .pipeline_parallel_degree = devices_,
                .virtual_stage_count = rules.virtual_stage_count,
                .micro_batch_count = micro_batch_count,
                .micro_batch_group_size = rules.micro_batch_group_size}),
        free_(devices_),
        forward_arrival_(stages.size() * static_cast<size_t>(micro_batch_count)),
        backward_arrival_(forward_arrival_.size()) {}

  std::vector<PipelineEvent> Play() {
    std::vector<PipelineEvent> events;
    std::vector<Seconds> exchange(devices_);
    for (int64_t tick = 0; tick < ticks_.count(); ++tick) {
      std::fill(exchange.begin(), exchange.end(), kNoMessage);
      for (int device = 0; device < devices_; ++device) {
        while (const PipelinePass* pass = ticks_.Take(tick, device)) {
          events.push_back(Do(*pass, device));
          Send(*pass, device, events.back().end, exchange);
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

  PipelineEvent Do(const PipelinePass& pass, int device) {
    const size_t slot = Slot(pass.stage_index, pass.micro_batch);
    const bool is_backward = pass.is_backward();
    const Seconds start =
        std::max(free_[device], is_backward ? backward_arrival_[slot] : forward_arrival_[slot]);
    free_[device] = start + DurationOf(pass);
    return {pass.stage_index, pass.micro_batch, is_backward, start, free_[device], pass.kind};
  }

  Seconds DurationOf(const PipelinePass& pass) const {
    const StageTimes& stage = stages_[pass.stage_index];
    switch (pass.kind) {
      case PassKind::kForward:
        return stage.forward;
      case PassKind::kBackward:
        return stage.backward;
      case PassKind::kBackwardInputs:
        return stage.backward - stage.backward_weights;
      case PassKind::kBackwardWeights:
        return stage.backward_weights;
    }
    PARPLAN_CHECK(false);
  }

  // Sends what `pass` made, done at `now`, to the stage after or before. `slowest[r]` is the
  // longest message at the end of the tick between device r and the next, or the sum of both.
  void Send(const PipelinePass& pass, int device, Seconds now, std::vector<Seconds>& slowest) {
    if (devices_ == 1 || pass.kind == PassKind::kBackwardWeights) return;
    const int from = pass.stage_index;
    const int to = pass.is_backward() ? from - 1 : from + 1;
    if (to < 0 || to >= static_cast<int>(stages_.size())) return;
    const Seconds duration = stages_[std::min(from, to)].send;
    const int link = pass.is_backward() ? (device + devices_ - 1) % devices_ : device;
    slowest[link] = serial_ && slowest[link] != kNoMessage ? slowest[link] + duration
                                                           : std::max(slowest[link], duration);
    if (blocking_) return;
    (pass.is_backward() ? backward_arrival_ : forward_arrival_)[Slot(to, pass.micro_batch)] =
        now + duration;
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
  const bool serial_;
  const absl::Span<const StageTimes> stages_;
  const int64_t micro_batches_;
  const int devices_;
  Ticks ticks_;
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
