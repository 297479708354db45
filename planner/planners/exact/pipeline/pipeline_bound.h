// A few numbers per boundary that summarise the stages after it and give a lower bound of the step
// without simulating it.
//
// Every term is the length of a chain of passes of the schedule, each of which waits for the one
// before, so the bound is proved; blocking messages only add waiting time. For 1F1B the chains are
// those along which micro-batches delay each other: within a stage, through the later stages and
// back, and round after round of as many micro-batches as a stage may have in flight. The bound
// equals the simulated time except for rare mixtures of them. For GPipe, which runs all forward
// passes and then all backward passes, it is always exact. Used by the searches of this folder and,
// for first bounds, by exact_candidates.h.
//
// Words (docs/glossary.md): a front is the ways to run a stage of which none is better than another
// in every time; micro-batches in flight have done their forward pass and not yet their backward
// pass.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "base/units.h"
#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"

namespace parplan {

// Times of stages i to P - 1 in seconds. The meaning of an element depends on the schedule:
//
//  1F1B   [0] from when the first micro-batch enters until its backward pass leaves
//         [1] until the last backward pass of stage i ends
//         [2] until all of these stages have synchronised
//         [3] passes and messages of one micro-batch through those of these stages that the
//             micro-batches after the last whole round of stage 0 go through; else 0
//  GPipe  [0] forward passes of one micro-batch and their messages, one direction
//         [1] the longest forward pass of a stage
//         [2], [3] the same for backward passes
//         [4] from the end of all forward passes until all have synchronised
//
// Unused elements are 0. The bound of a plan is monotone in each element.
using SuffixTimes = std::array<double, 5>;

// Extends suffixes of the pipeline by the stage in front of them.
class SuffixRecurrence {
 public:
  // GPipe with one stage counts as 1F1B. REQUIRES: `schedule` is 1F1B or GPipe; both numbers are at
  // least 1; aborts otherwise.
  SuffixRecurrence(Schedule schedule, int pipeline_parallel_degree, int64_t micro_batch_count);

  // Returns the suffix of the last stage; `stage.send` is ignored.
  SuffixTimes LastStage(const StageTimes& stage) const;
  // Returns the suffix that begins with stage `stage_index`, where `later` is that of the next
  // stage. Stages count from 0, here and below; that there are such stages is not checked.
  SuffixTimes Before(int stage_index, const StageTimes& stage, const SuffixTimes& later) const;
  // Returns lower bounds of `Before` for a stage of which only the sum of both passes is known,
  // which `stage` has in `forward`, with 0 in `backward`, and that its forward pass takes at least
  // `least_forward` seconds. 1F1B only.
  SuffixTimes BeforeJoined(int stage_index, const StageTimes& stage, double least_forward,
                           const SuffixTimes& later) const;

  // Returns a lower bound of the end of any schedule, counted from when the first micro-batch
  // enters stage i; for i = 0, of the step.
  double End(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + others_ * times[1] + times[4] : times[2];
  }
  // Returns the same until the last backward pass of stage i ends.
  double LastBackward(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + times[2] + others_ * (times[1] + times[3]) : times[1];
  }
  // Returns the same until the first micro-batch is back.
  double RoundTrip(const SuffixTimes& times) const {
    return is_gpipe_ ? times[0] + times[2] : times[0];
  }

  // Returns whether `a` is nowhere later than `b`; then no prefix gives `b` a better bound.
  bool Dominates(const SuffixTimes& a, const SuffixTimes& b) const {
    return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2] && a[3] <= b[3] && a[4] <= b[4];
  }

  // Returns whether the recurrence is that of GPipe: a schedule without a steady state in which
  // forward and backward passes alternate, and several stages.
  bool is_gpipe() const { return is_gpipe_; }
  // Returns the micro-batches that stage `stage_index` admits before it waits for the first, under
  // 1F1B: min(P - i, m). Under GPipe, which admits all, the result means nothing.
  double in_flight(int stage_index) const;
  // Returns the micro-batches of a step.
  double micro_batch_count() const { return others_ + 1.0; }
  // Returns the number of whole rounds of as many micro-batches as stage `stage_index` has in
  // flight: the step takes at least so many round trips from there. 1 under GPipe.
  double RoundCount(int stage_index) const;
  // Returns a lower bound of the time until the last backward pass of the stage, where `work` is
  // the time of both of its passes: round trips, and between them one micro-batch after the other.
  // 1F1B only.
  //
  //  arc   the result of `Arc` for stage 0, else 0
  double Rounds(int stage_index, double work, double round_trip, double arc) const;
  // Returns the largest `work` for which `Rounds` of stage `stage_index`, without the arc, is at
  // most `limit`, if the round trip after the stage takes at least `later`; negative if none is.
  // Under GPipe: `limit` less `later`.
  double MaxWork(int stage_index, double limit, double later) const;
  // Returns element [3], if that of the later stages is `later`.
  double Arc(int stage_index, double work, double send, double later) const {
    if (stage_index >= arc_length_) return 0.0;
    return work + (stage_index + 1 < arc_length_ ? 2.0 * send + later : 0.0);
  }

 private:
  bool is_gpipe_;
  int depth_;
  // Number of micro-batches after the last whole round of stage 0, which is the number of stages
  // the arc passes.
  int arc_length_ = 0;
  // Number of micro-batches except the first.
  double others_;
};

// Returns a lower bound of `StepTime` under the same rules, for one stage per device. REQUIRES: at
// least one stage, and what `SuffixRecurrence` requires; aborts otherwise.
Seconds PipelineStepBound(Schedule schedule, absl::Span<const StageTimes> stages,
                          int64_t micro_batch_count);

// Returns a lower bound, in seconds, of the step of any pipeline whose stages share `total` seconds
// of forward and backward passes per micro-batch, one stage taking at least `longest`. Messages and
// synchronisation come on top. REQUIRES, unchecked: `schedule` is 1F1B or GPipe; both numbers are
// at least 1.
//
// GPipe and one stage: the sum plus m - 1 times the longest, which is at least an even share. 1F1B
// with more micro-batches than stages: no less than with even shares. With fewer, stage i ends
// after the stages in front of it and m times its own time; the latest end is least if all are
// equal, so shares shrink by 1 - 1/m from stage to stage, as far as round trips allow
// (docs/search.md has the proofs).
double SpreadStepBound(Schedule schedule, int pipeline_parallel_degree, int64_t micro_batch_count,
                       double total, double longest);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PIPELINE_BOUND_H_
