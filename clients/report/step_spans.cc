#include "clients/report/step_spans.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "clients/report/stage_times.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan::report {
namespace {

// Names a pass as torch.distributed.pipelining does.
std::string PassName(const PipelineEvent& pass) {
  const char* letter = "F";
  if (pass.kind == PassKind::kBackward) letter = "B";
  if (pass.kind == PassKind::kBackwardInputs) letter = "I";
  if (pass.kind == PassKind::kBackwardWeights) letter = "W";
  return absl::StrCat(pass.stage_index, letter, pass.micro_batch_index);
}

// Returns the stage that gets the result of a pass, or -1 if none does.
int ReceiverOf(const PipelineEvent& pass, int stage_count) {
  if (pass.kind == PassKind::kBackwardWeights) return -1;
  const int to = pass.is_backward ? pass.stage_index - 1 : pass.stage_index + 1;
  return to < stage_count ? to : -1;
}

}  // namespace

absl::StatusOr<std::vector<StepSpan>> PredictedSpans(const Plan& plan, const Prediction& prediction,
                                                     bool blocking_messages, bool serial_messages) {
  const std::vector<StageTimes> times = VirtualStageTimes(plan, prediction);
  const int stage_count = static_cast<int>(times.size());
  const int place_count = static_cast<int>(prediction.stages.size());
  const bool is_split = TraitsOf(plan.schedule).backward_split == BackwardSplit::kInputsThenWeights;
  const int64_t passes_each = is_split ? 3 : 2;
  if (plan.micro_batch_count > kMaxTracedPasses / (passes_each * stage_count)) {
    return FieldError(Reason::kSpecInvalid, "micro_batch_count",
                      absl::StrCat("makes more than ", kMaxTracedPasses,
                                   " passes; trace a plan with fewer micro-batches"));
  }
  const PipelineRules rules = {.schedule = plan.schedule,
                               .virtual_stage_count = plan.virtual_stage_count,
                               .micro_batch_group_size = plan.micro_batch_group_size,
                               .blocking_messages = blocking_messages,
                               .serial_messages = serial_messages};
  std::vector<StepSpan> passes;
  std::vector<StepSpan> messages;
  std::vector<Seconds> last_end(place_count);
  for (const PipelineEvent& pass : PipelineEvents(rules, times, plan.micro_batch_count)) {
    const int place = pass.stage_index % place_count;
    last_end[place] = std::max(last_end[place], pass.end);
    passes.push_back({.name = PassName(pass),
                      .kind = pass.is_backward ? SpanKind::kBackward : SpanKind::kForward,
                      .place = place,
                      .stage_index = pass.stage_index,
                      .micro_batch_index = pass.micro_batch_index,
                      .start = pass.start,
                      .duration = pass.end - pass.start});
    const int receiver = ReceiverOf(pass, stage_count);
    if (blocking_messages || place_count == 1 || receiver < 0) continue;
    messages.push_back({.name = absl::StrCat("send ", passes.back().name),
                        .kind = SpanKind::kMessage,
                        .place = place,
                        .stage_index = pass.stage_index,
                        .micro_batch_index = pass.micro_batch_index,
                        .start = pass.end,
                        .duration = times[std::min(receiver, pass.stage_index)].send});
  }
  std::vector<StepSpan> spans = std::move(passes);
  spans.insert(spans.end(), messages.begin(), messages.end());
  for (int place = 0; place < place_count; ++place) {
    const StagePrediction& device = prediction.stages[place];
    const auto add = [&](const char* name, SpanKind kind, Seconds start, Seconds duration) {
      if (duration <= Seconds()) return;
      spans.push_back(
          {.name = name, .kind = kind, .place = place, .start = start, .duration = duration});
    };
    add("gradients", SpanKind::kGradients, last_end[place], device.gradient_sync);
    add("optimizer", SpanKind::kOptimizer, last_end[place] + device.gradient_sync,
        device.optimizer_step);
  }
  const auto in_order = [](const StepSpan& a, const StepSpan& b) {
    if (a.place != b.place) return a.place < b.place;
    const bool a_message = a.kind == SpanKind::kMessage;
    const bool b_message = b.kind == SpanKind::kMessage;
    if (a_message != b_message) return b_message;
    return a.start < b.start;
  };
  std::stable_sort(spans.begin(), spans.end(), in_order);
  spans.push_back({.name = "step", .kind = SpanKind::kStep, .duration = prediction.step});
  return spans;
}

}  // namespace parplan::report
