// What the stages behind a boundary mean for the step: a few numbers each, which make a
// bound of the step without simulating it.
//
// Every term is the length of a chain of passes of the schedule, each of which waits for
// the one before, so the bound is proved; blocking messages only add waits. For 1F1B the
// chains are those along which micro-batches hold each other up: within a stage, through
// the stages behind and back, and round after round of as many micro-batches as a stage
// may have in flight. It is the simulated time itself but for rare mixtures of them. For
// GPipe, whose passes are all one way and then all back, it is always exact.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"

namespace parplan {

// Of stages i to P - 1, in seconds. What a place means depends on the schedule:
//
//   1F1B   [0] from when the first micro-batch enters until its backward pass leaves
//          [1] until the last backward pass of stage i ends
//          [2] until all of them have synchronised
//          [3] passes and messages of one micro-batch through those of these stages that the
//              micro-batches behind the last whole round of stage 0 go through; else 0
//   GPipe  [0] forward passes of one micro-batch and their messages, one way
//          [1] the longest forward pass of a stage
//          [2], [3] the same of backward passes
//          [4] from the end of all forward passes until all have synchronised
//
// Places that are not used are 0. The bound of a plan is monotone in each place.
using SuffixTimes = std::array<double, 5>;

// Extends suffixes by the stage in front of them.
class SuffixRecurrence {
 public:
  // `schedule` is 1F1B or GPipe.
  SuffixRecurrence(Schedule schedule, int pipeline_parallel_degree, int64_t micro_batch_count);

  // `stage.send` is not used of the last stage.
  SuffixTimes LastStage(const StageTimes& stage) const;
  SuffixTimes Before(int stage_index, const StageTimes& stage, const SuffixTimes& behind) const;

  // No schedule of such stages ends earlier, counted from when the first micro-batch
  // enters stage i; for i = 0 the step.
  double End(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + others_ * times[1] + times[4] : times[2];
  }
  // The same until the last backward pass of stage i ends.
  double LastBackward(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + times[2] + others_ * (times[1] + times[3]) : times[1];
  }
  // The same until the first micro-batch is back, at least.
  double RoundTrip(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + times[2] : times[0];
  }

  // Whether `a` is nowhere later than `b`; then no prefix makes a better bound of `b`.
  bool Dominates(const SuffixTimes& a, const SuffixTimes& b) const {
    return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2] && a[3] <= b[3] && a[4] <= b[4];
  }

  bool is_gpipe() const { return is_gpipe_; }
  // Micro-batches that stage `stage_index` lets in before it waits for the first.
  double in_flight(int stage_index) const;
  double micro_batch_count() const { return others_ + 1.0; }
  // Whole rounds of as many micro-batches as stage `stage_index` has in flight: the step
  // takes at least so many round trips from there.
  double RoundCount(int stage_index) const;
  // Until the last backward pass of the stage at least, at `work` for both of its passes:
  // round trips, and between them, one micro-batch after the other. 1F1B only.
  //
  //   arc   of stage 0 what `Arc` says, else 0
  double Rounds(int stage_index, double work, double round_trip, double arc) const;
  // The most `work` with which `Rounds` of stage `stage_index`, without the arc, is at most
  // `most`, where the round trip behind the stage takes at least `behind`.
  double MostWork(int stage_index, double most, double behind) const;
  // Place [3], where that of the stages behind is `behind`.
  double Arc(int stage_index, double work, double send, double behind) const {
    if (stage_index >= arc_length_) return 0.0;
    return work + (stage_index + 1 < arc_length_ ? 2.0 * send + behind : 0.0);
  }

 private:
  bool is_gpipe_;
  int depth_;
  // Micro-batches behind the last whole round of stage 0: the next begins so many stages
  // from it.
  int arc_length_ = 0;
  // Micro-batches but for the first.
  double others_;
};

// A bound of `StepTime` under the same rules, for one stage a device.
Seconds PipelineStepBound(Schedule schedule, absl::Span<const StageTimes> stages,
                          int64_t micro_batch_count);

// A bound of the step of any pipeline over which `total` of forward and backward passes of
// one micro-batch are spread, in stages of which one takes at least `longest`.
//
// GPipe and one stage: the sum and m - 1 times the longest, at least an even share. 1F1B with
// more micro-batches than stages: no less than with even shares. With fewer, stage i ends after
// what is in front of it and m times its own, which is least when all these are equal; then
// shares shrink by 1 - 1/m from stage to stage, so stages in front take more, as far as round
// trips allow (docs/search.md has the proofs).
double SpreadStepBound(Schedule schedule, int pipeline_parallel_degree, int64_t micro_batch_count,
                       double total, double longest);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_
