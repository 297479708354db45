// The predicted step of a plan, span by span, with the names that a measured step has too. `planctl
// trace` writes them to a file.
//
//   0F3, 0B3    forward or backward pass of stage 0 over micro-batch 3, in PyTorch's words
//   send 0F3    the message with the result of that pass
//   gradients   synchronisation of gradients that nothing hides, behind the last backward pass
//   optimizer   the optimizer's step
//   step        all of it, with the host's time

#ifndef PARPLAN_CLIENTS_REPORT_STEP_SPANS_H_
#define PARPLAN_CLIENTS_REPORT_STEP_SPANS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/plan.h"

namespace parplan::report {

// The kinds of spans, which are drawn in different colours: passes, messages between stages, the
// synchronisation of gradients, the step of the optimizer, and the step as a whole.
enum class SpanKind { kForward, kBackward, kMessage, kGradients, kOptimizer, kStep };

// A piece of the step in which devices do one thing.
struct StepSpan {
  // Name for people, for example in the tooltip of a bar.
  std::string name;
  SpanKind kind = SpanKind::kStep;
  // Place of the devices in the pipeline, counted from 0.
  int place = 0;
  // Stage (a virtual one, in the order of the model) and micro-batch, both from 0, of passes and
  // messages, else -1.
  int stage_index = -1;
  int64_t micro_batch_index = -1;
  // Time since the step began.
  Seconds start;
  Seconds duration;
};

// Largest number of passes that are listed: a file of a million has 200 MB, which viewers still
// open.
inline constexpr int64_t kMaxTracedPasses = 1'000'000;

// Lists the spans of one step, place by place: passes, gradients and optimizer by their start, then
// messages by theirs. Gradients and an optimizer that take no time are left out; passes and
// messages that take none are listed. The whole step is the last span, at place 0. Messages are
// listed, at the place of their sender, unless there is one place or they block devices
// (`blocking_messages`; for both see `PipelineRules`): then the gaps between passes are the
// exchanges. INVALID_ARGUMENT (SPEC_INVALID) naming `micro_batch_count` if there are more than
// `kMaxTracedPasses` passes.
//
// With virtual stages the passes of a device are drawn equally long, because a prediction has only
// their sums; the other spans may then all end before the whole step does. REQUIRES, unchecked: the
// prediction has an entry for each stage or, with virtual stages, for each device in a row
// (`VirtualStageTimes`, stage_times.h).
absl::StatusOr<std::vector<StepSpan>> PredictedSpans(const Plan& plan, const Prediction& prediction,
                                                     bool blocking_messages,
                                                     bool serial_messages = false);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_STEP_SPANS_H_
