#include "planner/planners/exact/pipeline/pipeline_bound.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace parplan {

SuffixRecurrence::SuffixRecurrence(Schedule schedule, int pipeline_parallel_degree,
                                   int64_t micro_batch_count)
    : is_gpipe_(!TraitsOf(schedule).has_steady_state && pipeline_parallel_degree > 1),
      depth_(pipeline_parallel_degree),
      others_(static_cast<double>(micro_batch_count - 1)) {
  PARPLAN_CHECK(pipeline_parallel_degree > 0 && micro_batch_count > 0);
  PARPLAN_CHECK(!TraitsOf(schedule).has_virtual_stages);
  if (!is_gpipe_ && micro_batch_count > depth_) {
    arc_length_ = static_cast<int>((micro_batch_count - 1) % depth_);
  }
}

double SuffixRecurrence::in_flight(int stage_index) const {
  return std::min(static_cast<double>(depth_ - stage_index), others_ + 1.0);
}

double SuffixRecurrence::RoundCount(int stage_index) const {
  if (is_gpipe_) return 1.0;
  return std::floor(others_ / in_flight(stage_index)) + 1.0;
}

// A chain continues from the forward pass of micro-batch k to that of k + 1, after a backward pass
// of the stage, or by a round to that of k + in flight. It begins and ends with a round. The rest
// of a round of stage 0 goes forward to a stage that has as many fewer in flight and back after one
// of its backward passes: an arc.
double SuffixRecurrence::Rounds(int stage_index, double work, double round_trip, double arc) const {
  const double in_flight = this->in_flight(stage_index);
  if (others_ < in_flight) return round_trip;
  const double rounds = std::floor(others_ / in_flight);
  const double rest = others_ - rounds * in_flight;
  return std::max(2.0 * round_trip + (others_ - in_flight) * work,
                  (rounds + 1.0) * round_trip + std::max(rest * work, arc));
}

double SuffixRecurrence::MaxWork(int stage_index, double limit, double later) const {
  const double in_flight = this->in_flight(stage_index);
  if (is_gpipe_ || others_ < in_flight) return limit - later;
  const double rounds = std::floor(others_ / in_flight) + 1.0;
  const double rest = others_ - (rounds - 1.0) * in_flight;
  return std::min((limit - 2.0 * later) / (2.0 + others_ - in_flight),
                  (limit - rounds * later) / (rounds + rest));
}

SuffixTimes SuffixRecurrence::LastStage(const StageTimes& stage) const {
  const double forward = stage.forward.value();
  const double backward = stage.backward.value();
  const double sync = stage.gradient_sync.value();
  if (is_gpipe_) {
    return {forward, forward, backward, backward, (others_ + 1.0) * backward + sync};
  }
  const double last_backward = (others_ + 1.0) * (forward + backward);
  return {forward + backward, last_backward, last_backward + sync, 0.0, 0.0};
}

SuffixTimes SuffixRecurrence::Before(int stage_index, const StageTimes& stage,
                                     const SuffixTimes& later) const {
  const double forward = stage.forward.value();
  const double backward = stage.backward.value();
  const double send = stage.send.value();
  const double sync = stage.gradient_sync.value();
  if (is_gpipe_) {
    SuffixTimes times;
    times[0] = forward + send + later[0];
    times[1] = std::max(forward, later[1]);
    times[2] = backward + send + later[2];
    times[3] = std::max(backward, later[3]);
    times[4] = std::max(later[4], times[2] + others_ * times[3] + sync);
    return times;
  }
  const double work = forward + backward;
  const double forward_backward = work + 2.0 * send;
  const double round_trip = forward_backward + later[0];
  const double in_flight = this->in_flight(stage_index);
  double last_backward =
      std::max(std::max(forward_backward + later[1], (others_ + 1.0) * work),
               round_trip + (others_ + 1.0 - in_flight) * forward + others_ * backward);
  const double arc = Arc(stage_index, work, send, later[3]);
  last_backward =
      std::max(last_backward, Rounds(stage_index, work, round_trip, stage_index == 0 ? arc : 0.0));
  return {round_trip, last_backward, std::max(last_backward + sync, forward + send + later[2]), arc,
          0.0};
}

// The passes that come before the last backward pass of the stage are sums of both, or, behind the
// first round trip, (m - n) f + (m - 1) b, which is at least (m - n) (f + b). Before the later
// stages synchronise, the first micro-batch only has to come through the forward pass.
SuffixTimes SuffixRecurrence::BeforeJoined(int stage_index, const StageTimes& stage,
                                           double least_forward, const SuffixTimes& later) const {
  SuffixTimes times = Before(stage_index, stage, later);
  times[2] = std::max(times[1] + stage.gradient_sync.value(),
                      least_forward + stage.send.value() + later[2]);
  return times;
}

Seconds PipelineStepBound(Schedule schedule, absl::Span<const StageTimes> stages,
                          int64_t micro_batch_count) {
  const int depth = static_cast<int>(stages.size());
  const SuffixRecurrence recurrence(schedule, depth, micro_batch_count);
  SuffixTimes times = recurrence.LastStage(stages.back());
  for (int i = depth - 2; i >= 0; --i) times = recurrence.Before(i, stages[i], times);
  return Seconds::Of(recurrence.End(times));
}

double SpreadStepBound(Schedule schedule, int pipeline_parallel_degree, int64_t micro_batch_count,
                       double total, double longest) {
  const auto count = static_cast<double>(micro_batch_count);
  const auto depth = static_cast<double>(pipeline_parallel_degree);
  if (pipeline_parallel_degree == 1) return count * total;
  if (!TraitsOf(schedule).has_steady_state) {
    return total + (count - 1.0) * std::max(longest, total / depth);
  }
  // Two rounds, and between them one micro-batch after the other: equal stages are best then.
  if (micro_batch_count > pipeline_parallel_degree) {
    return std::max(total * ((count + depth - 1.0) / depth), count * longest);
  }
  if (micro_batch_count == 1) return total;
  // 1 - (1 - 1/m)^k
  const auto share = [count](double stages) {
    return -std::expm1(stages * std::log1p(-1.0 / count));
  };
  // The stages that admit all micro-batches before they wait, and the first stage after them.
  const double two_rounds = 2.0 / (1.0 + share(depth - count + 1.0));
  return std::max(total * std::max(1.0 / share(depth), two_rounds), count * longest);
}

}  // namespace parplan
