#include "planner/cost/pipeline_schedule.h"

#include <algorithm>

#include "base/check.h"
#include "planner/cost/schedule_period.h"
#include "planner/model/pass_order.h"

namespace parplan {
namespace {

using internal::kNever;
using internal::RunSteadily;

// Passes lie in the ticks of planner/model/pass_order.h: a pass waits only for passes of the tick
// before. The state of the pipeline after a tick is therefore one time per device, and for
// interleaved stages two more for the messages under way. After a round of ticks the same passes
// follow again.

// Returns whether micro-batch `position / 2` is one of `micro_batch_count`.
bool IsActive(int64_t position, int64_t micro_batch_count) {
  return position >= 0 && position < 2 * micro_batch_count;
}

}  // namespace

void ScheduleEvaluator::Load(absl::Span<const StageTimes> stages, int device_count) {
  const size_t stage_count = stages.size();
  device_count_ = device_count;
  forward_.resize(stage_count);
  backward_.resize(stage_count);
  weights_.resize(stage_count);
  send_after_.resize(stage_count);
  send_before_.resize(stage_count);
  last_backward_end_.resize(stage_count);
  for (size_t j = 0; j < stage_count; ++j) {
    forward_[j] = stages[j].forward.value();
    backward_[j] = stages[j].backward.value();
    weights_[j] = stages[j].backward_weights.value();
    send_after_[j] = j + 1 < stage_count ? stages[j].send.value() : kNever;
    send_before_[j] = j > 0 ? send_after_[j - 1] : kNever;
  }
  free_.assign(device_count, 0.0);
}

// Passes of one direction leave a stage at even intervals if they arrive at even intervals, so the
// recurrence from stage to stage is over (first end, interval) and exact for every micro-batch.
// Backward passes find all stages free, since the last stage ends its forward passes last.
void ScheduleEvaluator::RunGpipe(int64_t micro_batch_count) {
  const double others = static_cast<double>(micro_batch_count - 1);
  double end = 0.0;
  double interval = 0.0;
  for (int r = 0; r < device_count_; ++r) {
    if (r > 0) end += send_before_[r];
    end += forward_[r];
    interval = std::max(interval, forward_[r]);
  }
  end += others * interval;
  interval = 0.0;
  for (int r = device_count_ - 1; r >= 0; --r) {
    if (r + 1 < device_count_) end += send_after_[r];
    end += backward_[r];
    interval = std::max(interval, backward_[r]);
    free_[r] = end + others * interval;
  }
}

// Moves all micro-batches in one direction. In tick t, stage i (counted in the direction of the
// flow) does micro-batch (t - i) / 2 and hands it over; the stages between two that work receive.
void ScheduleEvaluator::RunBlockingFlow(int64_t micro_batch_count, bool is_backward) {
  // Times are counted from the beginning of the backward passes, which keeps rounding small.
  const double origin = is_backward ? free_.back() : 0.0;
  for (double& time : free_) time -= origin;
  const int last = device_count_ - 1;
  const double* work = is_backward ? backward_.data() : forward_.data();
  const auto run = [&, last](int64_t tick) {
    for (int64_t i = tick % 2; i <= last; i += 2) {
      if (!IsActive(tick - i, micro_batch_count)) continue;
      const int64_t r = is_backward ? last - i : i;
      free_[r] += work[r];
      if (i == last) continue;
      const int64_t next = is_backward ? r - 1 : r + 1;
      const double send = is_backward ? send_before_[r] : send_after_[r];
      free_[r] = free_[next] = std::max(free_[r], free_[next]) + send;
    }
  };
  const int64_t end = 2 * (micro_batch_count - 1) + device_count_;
  const int64_t steady_begin = std::min<int64_t>(last, end);
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  RunSteadily(steady_begin, 2 * micro_batch_count, 2, end, free_.data(), device_count_, snapshot_,
              run);
  for (double& time : free_) time += origin;
}

// In tick t, stage r does forward pass (t - r) / 2 or backward pass
// (t - 2 P + 1 + r) / 2, whichever is whole; it waits for what its neighbour did
// in tick t - 1, and neighbours do opposite passes.
void ScheduleEvaluator::RunOneForwardOneBackward(int64_t micro_batch_count) {
  const int64_t stages = device_count_;
  double* const free = free_.data();
  const double* const forward = forward_.data();
  const double* const backward = backward_.data();
  const double* const send = send_before_.data();
  const auto run = [=](int64_t tick) {
    const int64_t first = tick % 2;
    const int64_t back = tick - 2 * stages + 1;
    // Pairs of neighbours of which the later stage goes forward and the earlier one backward.
    const bool all_active = back >= 0 && tick < 2 * micro_batch_count;
    if (first == 0 && IsActive(tick, micro_batch_count)) free[0] += forward[0];
    for (int64_t r = first == 0 ? 2 : 1; r < stages; r += 2) {
      const double before = free[r - 1];
      const double behind = free[r];
      if (all_active || IsActive(tick - r, micro_batch_count)) {
        free[r] = std::max(behind, before + send[r]) + forward[r];
      }
      if (all_active || IsActive(back + r - 1, micro_batch_count)) {
        free[r - 1] = std::max(before, behind + send[r]) + backward[r - 1];
      }
    }
    if ((stages - first) % 2 == 0 && IsActive(back + stages - 1, micro_batch_count)) {
      free[stages - 1] += backward[stages - 1];
    }
  };
  const int64_t end = 2 * (micro_batch_count + stages - 1);
  const int64_t steady_begin = std::min(2 * stages - 1, end);
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  RunSteadily(steady_begin, 2 * micro_batch_count, 2, end, free, device_count_, snapshot_, run);
}

// The ticks are those of 1F1B. A gradient leaves when its backward pass ends, before the weight
// pass that follows, so the state also has the end of each device's last backward pass. The first
// weight pass of device r follows backward pass r, in tick 2 P - 1 + r.
void ScheduleEvaluator::RunZeroBubble(int64_t micro_batch_count) {
  const int64_t stages = device_count_;
  free_.resize(size_t{2} * device_count_, 0.0);
  double* const free = free_.data();
  double* const sent = free + stages;
  const auto run = [=, this](int64_t tick) {
    const int64_t first = tick % 2;
    const int64_t back = tick - 2 * stages + 1;
    const auto go_backward = [=, this](int64_t r, double arrival) {
      if (!IsActive(back + r, micro_batch_count)) return;
      const int64_t number = (back + r) / 2;
      sent[r] = std::max(free[r], arrival) + (backward_[r] - weights_[r]);
      free[r] = sent[r];
      if (number >= r) free[r] += weights_[r];
      if (number + 1 < micro_batch_count) return;
      free[r] += weights_[r] * static_cast<double>(std::min(r, micro_batch_count));
    };
    if (first == 0 && IsActive(tick, micro_batch_count)) free[0] += forward_[0];
    for (int64_t r = first == 0 ? 2 : 1; r < stages; r += 2) {
      // A device that goes backward in this tick went forward in the one before.
      if (IsActive(tick - r, micro_batch_count)) {
        free[r] = std::max(free[r], free[r - 1] + send_before_[r]) + forward_[r];
      }
      go_backward(r - 1, sent[r] + send_before_[r]);
    }
    if ((stages - first) % 2 == 0) go_backward(stages - 1, kNever);
  };
  const int64_t end = 2 * (micro_batch_count + stages - 1);
  const int64_t steady_begin = std::min(3 * stages - 1, end);
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  RunSteadily(steady_begin, 2 * micro_batch_count, 2, end, free, 2 * device_count_, snapshot_, run);
}

// The ticks are the same. At the end of each, a stage that went forward and the next one, which
// went backward, exchange their messages.
void ScheduleEvaluator::RunBlockingOneForwardOneBackward(bool serial, int64_t micro_batch_count) {
  const int64_t stages = device_count_;
  const double both = serial ? 2.0 : 1.0;
  double* const free = free_.data();
  const auto run = [=, this](int64_t tick) {
    const int64_t back = tick - 2 * stages + 1;
    const auto goes_forward = [=](int64_t r) { return IsActive(tick - r, micro_batch_count); };
    const auto goes_backward = [=](int64_t r) { return IsActive(back + r, micro_batch_count); };
    const int64_t first = tick % 2;
    if (first == 1 && goes_backward(0)) free[0] += backward_[0];
    for (int64_t r = first; r < stages; r += 2) {
      const bool is_forward = goes_forward(r);
      if (is_forward) free[r] += forward_[r];
      if (r + 1 == stages) continue;
      const bool is_backward = goes_backward(r + 1);
      if (is_backward) free[r + 1] += backward_[r + 1];
      if (is_forward || is_backward) {
        const double messages = is_forward && is_backward ? both : 1.0;
        free[r] = free[r + 1] = std::max(free[r], free[r + 1]) + messages * send_after_[r];
      }
    }
  };
  const int64_t end = 2 * (micro_batch_count + stages - 1);
  const int64_t steady_begin = std::min(2 * stages - 1, end);
  for (int64_t tick = 0; tick < steady_begin; ++tick) run(tick);
  RunSteadily(steady_begin, 2 * micro_batch_count, 2, end, free, device_count_, snapshot_, run);
}

void ScheduleEvaluator::RunAlone(int64_t micro_batch_count) {
  double forward = 0.0;
  double backward = 0.0;
  for (double time : forward_) forward += time;
  for (double time : backward_) backward += time;
  double end = (forward + backward) * static_cast<double>(micro_batch_count - 1) + forward;
  for (size_t j = backward_.size(); j-- > 0;) {
    end += backward_[j];
    last_backward_end_[j] = end;
  }
  free_[0] = end;
}

Seconds ScheduleEvaluator::EndOfSynchronisation(const PipelineRules& rules,
                                                absl::Span<const StageTimes> stages) const {
  const int stage_count = static_cast<int>(stages.size());
  double end = 0.0;
  for (int device = 0; device < device_count_; ++device) {
    // In the order in which the stages of a device have their last backward pass.
    double synchronised = 0.0;
    for (int j = stage_count - device_count_ + device; j >= 0; j -= device_count_) {
      const bool early = rules.early_gradient_sync && rules.virtual_stage_count > 1;
      synchronised = std::max(synchronised, early ? last_backward_end_[j] : free_[device]) +
                     stages[j].gradient_sync.value();
    }
    end = std::max({end, free_[device], synchronised});
  }
  return Seconds::Of(end);
}

Seconds ScheduleEvaluator::StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                                    int64_t micro_batch_count) {
  const int chunks = rules.virtual_stage_count;
  const int stage_count = static_cast<int>(stages.size());
  PARPLAN_CHECK(stage_count > 0 && micro_batch_count > 0 && chunks > 0);
  PARPLAN_CHECK(stage_count % chunks == 0);
  const ScheduleTraits& traits = TraitsOf(rules.schedule);
  PARPLAN_CHECK(chunks == 1 || traits.has_virtual_stages);
  Load(stages, stage_count / chunks);
  if (device_count_ == 1) {
    RunAlone(micro_batch_count);
  } else if (traits.backward_split == BackwardSplit::kInputsThenWeights) {
    PARPLAN_CHECK(!rules.blocking_messages);
    RunZeroBubble(micro_batch_count);
  } else if (traits.warm_up == WarmUpLaw::kAllForwardPasses) {
    if (rules.blocking_messages) {
      RunBlockingFlow(micro_batch_count, /*is_backward=*/false);
      RunBlockingFlow(micro_batch_count, /*is_backward=*/true);
    } else {
      RunGpipe(micro_batch_count);
    }
  } else if (chunks > 1) {
    const int64_t group = std::max<int64_t>(device_count_, rules.micro_batch_group_size);
    PARPLAN_CHECK(group == device_count_ || IsGroupSize(group, device_count_, micro_batch_count));
    if (group > device_count_) {
      if (rules.blocking_messages) {
        RunInterleaved<true, true>(chunks, group, micro_batch_count);
      } else {
        RunInterleaved<false, true>(chunks, group, micro_batch_count);
      }
    } else if (rules.blocking_messages) {
      RunInterleaved<true, false>(chunks, group, micro_batch_count);
    } else {
      RunInterleaved<false, false>(chunks, group, micro_batch_count);
    }
  } else if (rules.blocking_messages) {
    RunBlockingOneForwardOneBackward(rules.serial_messages, micro_batch_count);
  } else {
    RunOneForwardOneBackward(micro_batch_count);
  }
  return EndOfSynchronisation(rules, stages);
}

Seconds StepTime(const PipelineRules& rules, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count) {
  return ScheduleEvaluator().StepTime(rules, stages, micro_batch_count);
}

Seconds StepTime(Schedule schedule, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count) {
  return StepTime(PipelineRules{.schedule = schedule}, stages, micro_batch_count);
}

}  // namespace parplan
