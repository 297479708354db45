#include "clients/report/step_spans.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "clients/report/stage_times.h"
#include "planner/cost/pipeline_schedule.h"
#include "tests/clients/report/sample_reports.h"
#include "tests/support/status_matchers.h"

namespace parplan::report {
namespace {

constexpr double kRounding = 1e-9;

std::vector<SampleShape> Shapes() {
  std::vector<SampleShape> shapes;
  for (const int64_t micro_batches : {1, 4, 13}) {
    for (const int stages : {1, 2, 5}) {
      for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kGpipe}) {
        shapes.push_back(
            {.stage_count = stages, .micro_batch_count = micro_batches, .schedule = schedule});
      }
    }
  }
  shapes.push_back({.stage_count = 6,
                    .micro_batch_count = 6,
                    .schedule = Schedule::kInterleaved,
                    .virtual_stage_count = 3});
  return shapes;
}

TEST(PredictedSpans, HandWorkedStepOfTwoStages) {
  // Forward 1, backward 2, a message 0.5; gradients 0.25 and optimizer 0.125 of the first stage.
  ReportInput input = SampleReport({.stage_count = 2, .micro_batch_count = 1});
  for (StagePrediction& stage : input.prediction.stages) {
    stage.forward = Seconds::Of(1);
    stage.backward = Seconds::Of(2);
    stage.send = Seconds::Of(0.5);
    stage.gradient_sync = stage.optimizer_step = Seconds();
  }
  input.prediction.stages[0].gradient_sync = Seconds::Of(0.25);
  input.prediction.stages[0].optimizer_step = Seconds::Of(0.125);
  input.prediction.step = Seconds::Of(7.5);
  ASSERT_OK_AND_ASSIGN(const std::vector<StepSpan> spans,
                       PredictedSpans(input.plan, input.prediction, false));
  std::vector<std::string> found;
  for (const StepSpan& span : spans) {
    found.push_back(std::to_string(span.place) + " " + span.name + " " +
                    std::to_string(span.start.value()) + " " +
                    std::to_string(span.duration.value()));
  }
  EXPECT_THAT(found,
              testing::ElementsAre("0 0F0 0.000000 1.000000", "0 0B0 5.000000 2.000000",
                                   "0 gradients 7.000000 0.250000", "0 optimizer 7.250000 0.125000",
                                   "0 send 0F0 1.000000 0.500000", "1 1F0 1.500000 1.000000",
                                   "1 1B0 2.500000 2.000000", "1 send 1B0 4.500000 0.500000",
                                   "0 step 0.000000 7.500000"));
}

// Stages 1 and 4 are on the second of three devices, and the first of them does all its work.
TEST(VirtualStageTimes, AreSharedByStagesWithLayers) {
  ReportInput input = SampleReport({.stage_count = 6,
                                    .micro_batch_count = 6,
                                    .schedule = Schedule::kInterleaved,
                                    .virtual_stage_count = 2});
  MoveLayersOfStage(4, input.plan);
  const std::vector<StageTimes> times = VirtualStageTimes(input.plan, input.prediction);
  const StagePrediction& device = input.prediction.stages[1];
  EXPECT_EQ(times[1].forward, device.forward);
  EXPECT_EQ(times[1].backward, device.backward);
  EXPECT_EQ(times[1].gradient_sync, device.gradient_sync);
  EXPECT_EQ(times[4].forward, Seconds());
  EXPECT_EQ(times[4].backward, Seconds());
  EXPECT_EQ(times[4].gradient_sync, Seconds());
  EXPECT_EQ(times[4].send, times[1].send);
}

TEST(PredictedSpans, HaveEachPassOnceAndNoTwoAtATime) {
  for (const SampleShape& shape : Shapes()) {
    const ReportInput input = SampleReport(shape);
    for (const bool blocking : {false, true}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<StepSpan> spans,
                           PredictedSpans(input.plan, input.prediction, blocking));
      std::map<std::string, int> names;
      // [place] end of the span before.
      std::map<int, Seconds> ends;
      int64_t messages = 0;
      for (const StepSpan& span : spans) {
        if (span.kind == SpanKind::kStep) continue;
        if (span.kind == SpanKind::kMessage) {
          ++messages;
          continue;
        }
        if (span.stage_index >= 0) ++names[span.name];
        EXPECT_GE(span.start.value(), ends[span.place].value() - kRounding);
        ends[span.place] = span.start + span.duration;
      }
      EXPECT_EQ(names.size(), 2 * shape.stage_count * shape.micro_batch_count);
      for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
      const bool sends = !blocking && shape.device_group_count() > 1;
      EXPECT_EQ(messages, sends ? 2 * (shape.stage_count - 1) * shape.micro_batch_count : 0);
    }
  }
}

TEST(PredictedSpans, EndWhereTheScheduleDoes) {
  for (const SampleShape& shape : Shapes()) {
    const ReportInput input = SampleReport(shape);
    std::vector<StageTimes> times = VirtualStageTimes(input.plan, input.prediction);
    for (size_t stage = 0; stage < times.size(); ++stage) {
      const StagePrediction& device =
          input.prediction.stages[stage % input.prediction.stages.size()];
      times[stage].gradient_sync += device.optimizer_step / input.plan.virtual_stage_count;
    }
    for (const bool blocking : {false, true}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<StepSpan> spans,
                           PredictedSpans(input.plan, input.prediction, blocking));
      Seconds end;
      for (const StepSpan& span : spans) {
        const bool is_work = span.kind != SpanKind::kMessage && span.kind != SpanKind::kStep;
        if (is_work) end = std::max(end, span.start + span.duration);
      }
      const Seconds expected = StepTime({.schedule = input.plan.schedule,
                                         .virtual_stage_count = input.plan.virtual_stage_count,
                                         .blocking_messages = blocking},
                                        times, input.plan.micro_batch_count);
      EXPECT_NEAR(end.value(), expected.value(), kRounding * expected.value());
    }
  }
}

TEST(PredictedSpans, APassBeginsWhenItsMessageHasArrived) {
  for (const SampleShape& shape : Shapes()) {
    const ReportInput input = SampleReport(shape);
    ASSERT_OK_AND_ASSIGN(const std::vector<StepSpan> spans,
                         PredictedSpans(input.plan, input.prediction, false));
    std::map<std::string, StepSpan> by_name;
    for (const StepSpan& span : spans) {
      if (span.stage_index >= 0) by_name[span.name] = span;
    }
    for (const auto& [name, message] : by_name) {
      if (message.kind != SpanKind::kMessage) continue;
      const StepSpan& pass = by_name.at(name.substr(std::string("send ").size()));
      EXPECT_NEAR(message.start.value(), (pass.start + pass.duration).value(), kRounding);
      const bool back = pass.kind == SpanKind::kBackward;
      const std::string receiver = std::to_string(pass.stage_index + (back ? -1 : 1)) +
                                   (back ? "B" : "F") + std::to_string(pass.micro_batch_index);
      EXPECT_GE(by_name.at(receiver).start.value(),
                (message.start + message.duration).value() - kRounding);
    }
  }
}

TEST(PredictedSpans, MorePassesThanViewersOpenAreRefused) {
  ReportInput input = SampleReport({.stage_count = 2});
  input.plan.micro_batch_count = kMaxTracedPasses / 4 + 1;
  const absl::Status status = PredictedSpans(input.plan, input.prediction, false).status();
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kSpecInvalid);
}

}  // namespace
}  // namespace parplan::report
