#include "clients/report/report.h"

#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/quantity_text.h"
#include "clients/report/html.h"
#include "planner/cost/pipeline_schedule.h"
#include "tests/clients/report/page_form.h"
#include "tests/clients/report/sample_reports.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kMaxPageBytes = size_t{1} << 20;

TEST(FaultOfForm, FindsWhatIsBroken) {
  const std::string head = "<!DOCTYPE html>\n";
  EXPECT_EQ(FaultOfForm(head + "<p class=\"a\">b &amp; c<br/></p>"), "");
  for (const std::string body : {"<p>", "</p>", "<p><b></p></b>", "<p>a & b</p>", "<p>&nbsp;</p>",
                                 "<p a=b></p>", "<p a=\"1\" a=\"2\"></p>", "<p a=\"<\"></p>",
                                 "<p>\x01</p>", "<p>\xFF</p>", "<p>\xC3</p>", "<p", "< p></p>"}) {
    EXPECT_NE(FaultOfForm(head + body), "") << body;
  }
}

TEST(RenderReport, IsWellFormedSmallAndAloneForEveryShape) {
  for (const int stage_count : {1, 2, 7, 16, 17, 64}) {
    for (const int layer_count : {1, 64, 99, 2000}) {
      for (const int64_t micro_batch_count : {1, 48, 97, 4096}) {
        for (const int strategy_count : {1, 37, 2000}) {
          if (layer_count < stage_count) continue;
          SCOPED_TRACE(testing::Message() << stage_count << " stages, " << layer_count
                                          << " layers, " << micro_batch_count << " micro-batches, "
                                          << strategy_count << " strategies");
          const std::string page =
              RenderReport(SampleReport({.stage_count = stage_count,
                                         .devices_per_stage = 64,
                                         .layer_count = layer_count,
                                         .micro_batch_count = micro_batch_count,
                                         .strategy_count = strategy_count}));
          EXPECT_EQ(FaultOfForm(page), "");
          EXPECT_LT(page.size(), kMaxPageBytes);
          EXPECT_THAT(page, Not(HasSubstr("<script")));
          EXPECT_THAT(page, Not(HasSubstr("nan")));
          EXPECT_THAT(page, Not(HasSubstr("inf%")));
        }
      }
    }
  }
}

TEST(RenderReport, StaysSmallFarBeyondTheSizesMet) {
  const std::string page = RenderReport(SampleReport({.stage_count = 1024,
                                                      .devices_per_stage = 64,
                                                      .layer_count = 16384,
                                                      .micro_batch_count = 4096,
                                                      .strategy_count = 16384,
                                                      .schedule = Schedule::kGpipe}));
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_LT(page.size(), kMaxPageBytes);
  EXPECT_THAT(VisibleText(page), HasSubstr("Drawn are the first 128 of 1024 stages."));
}

TEST(RenderReport, LooksOnlyAtTheBeginningOfAVeryLongStep) {
  // The whole schedule would be events of more than 60 GB.
  ReportInput input = SampleReport({.stage_count = 2});
  input.plan.global_batch_size = int64_t{1} << 30;
  input.plan.micro_batch_count = int64_t{1} << 29;
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_THAT(VisibleText(page), HasSubstr("The pattern goes on until the last micro-batch"));
}

TEST(RenderReport, GalleryIsWellFormed) {
  for (const NamedReport& report : ReportGallery()) {
    const std::string page = RenderReport(report.input);
    EXPECT_EQ(FaultOfForm(page), "") << report.name;
    EXPECT_LT(page.size(), kMaxPageBytes) << report.name;
  }
}

TEST(RenderReport, ShowsThePlansBesideTheBest) {
  ReportInput input = SampleReport({});
  const std::string alone = VisibleText(RenderReport(input));
  EXPECT_THAT(alone, Not(HasSubstr("Next best plans")));
  EXPECT_THAT(alone, Not(HasSubstr("Time against memory")));
  EXPECT_THAT(alone, Not(HasSubstr("What the planner says")));
  input.alternatives = SamplePlansBeside(input, 2);
  input.memory_front = SamplePlansBeside(input, 3);
  input.notes = {"alpha_t 0.5 <before>"};
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  const std::string text = VisibleText(page);
  // A quarter, a half, three quarters slower; a half, a third, a quarter of the memory.
  for (const char* words : {"Next best plans", "Time against memory", "+25.0 %", "+50.0 %",
                            "+75.0 %", "-50.0 %", "-66.7 %", "-75.0 %", "alpha_t 0.5"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(text, HasSubstr(SizeText(input.memory_front.back().peak_memory)));
}

TEST(RenderReport, StaysSmallWithAsManyPlansAsOneMayAskFor) {
  ReportInput input =
      SampleReport({.stage_count = 64, .layer_count = 2000, .strategy_count = 2000});
  input.alternatives = SamplePlansBeside(input, 300);
  input.memory_front = SamplePlansBeside(input, 300);
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_LT(page.size(), kMaxPageBytes);
  EXPECT_THAT(VisibleText(page), HasSubstr("Drawn are the first 128 of 300 plans."));
  EXPECT_THAT(VisibleText(page), HasSubstr("The table shows the first 200 of 300 plans."));
}

TEST(RenderReport, EscapesEveryText) {
  // Every text of the input says which it is, so that none can be forgotten.
  const auto hostile = [](const std::string& where) {
    return where + "<script>\"&'\x01\xFF</script>\xE2\x80\xAE";
  };
  ReportInput input = SampleReport({});
  input.title = hostile("title");
  input.planner = hostile("planner");
  input.prediction.bottleneck_text = hostile("bottleneck");
  input.prediction.estimated_items = {hostile("item")};
  for (std::string& name : input.layer_names) name = hostile("layer");
  input.rivals.front().planner = hostile("rival");
  input.rivals.front().gist = hostile("gist");
  input.facts = {{hostile("label"), hostile("text")}};
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  for (const std::string where :
       {"title", "planner", "bottleneck", "item", "layer", "rival", "gist", "label", "text"}) {
    EXPECT_THAT(VisibleText(page),
                HasSubstr(where + "<script>\"&' \xEF\xBF\xBD</script>\xEF\xBF\xBD"));
  }
}

TEST(RenderReport, BringsItsPolicyAndAsksForNothing) {
  const std::string page = RenderReport(SampleReport({}));
  EXPECT_THAT(page, HasSubstr("http-equiv=\"Content-Security-Policy\" content=\"default-src "
                              "'none'; style-src 'unsafe-inline'; img-src data:\""));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_EQ(CountOf(page, "href="), 1);  // the empty icon
}

TEST(RenderReport, ShowsTheFigures) {
  ReportInput input = SampleReport({});
  input.prediction.step = Seconds::Of(6.3414);
  input.prediction.samples_per_second = 20.184;
  const std::string text = VisibleText(RenderReport(input));
  for (const char* part : {"6.34 s", "20.2", "2 × 4", "16 × 8", "≤ 3.2 %", "Schedule 1F1B",
                           "Planned by galvatron-base", "2-4-1-c x17 | 2-4-1 x17",
                           "tensor parallel 4, activations recomputed", "optimizer states",
                           "would need 121 GB per device"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(RenderReport, SaysWhatTheSearchProved) {
  ReportInput input = SampleReport({});
  input.search.termination = Termination::kOptimal;
  EXPECT_THAT(VisibleText(RenderReport(input)), HasSubstr("optimal"));
  input.search = SearchSummary();  // of a plan that was given, not searched
  EXPECT_THAT(VisibleText(RenderReport(input)), HasSubstr("no proof"));
}

TEST(RenderReport, WarnsOfAPlanThatDoesNotFit) {
  ReportInput input = SampleReport({});
  EXPECT_THAT(VisibleText(RenderReport(input)), Not(HasSubstr("This plan does not fit.")));
  input.prediction.usable_memory = input.prediction.peak_memory - Bytes::Of(2'000'000'000);
  const std::string text = VisibleText(RenderReport(input));
  EXPECT_THAT(text, HasSubstr("This plan does not fit."));
  const Bytes missing = input.prediction.peak_memory_upper - input.prediction.usable_memory;
  EXPECT_THAT(text, HasSubstr("which is " + SizeText(missing) + " more than it may hold"));

  // A plan that is likely to fit, but not at the accepted risk, does not fit.
  input.prediction.usable_memory = input.prediction.peak_memory;
  EXPECT_THAT(VisibleText(RenderReport(input)), HasSubstr("This plan does not fit."));
}

TEST(RenderReport, ListsWhatWasNotMeasured) {
  ReportInput input = SampleReport({});
  EXPECT_THAT(VisibleText(RenderReport(input)), HasSubstr("these do not:"));
  input.prediction.confidence = Confidence::kMeasured;
  input.prediction.estimated_items.clear();
  const std::string text = VisibleText(RenderReport(input));
  EXPECT_THAT(text, HasSubstr("Every number rests on a measurement."));
}

TEST(RenderReport, DrawsEveryPassWithItsTimes) {
  const SampleShape shape = {.stage_count = 4, .micro_batch_count = 8};
  const std::string page = RenderReport(SampleReport(shape));
  EXPECT_EQ(CountOf(page, "<rect class=\"forward\" x="), 4 * 8);
  EXPECT_EQ(CountOf(page, "<rect class=\"backward\" x="), 4 * 8);
  EXPECT_THAT(page, HasSubstr("stage 3, micro-batch 7, backward, "));
}

TEST(RenderReport, DrawsVirtualStagesOnTheRowOfTheirDevices) {
  const SampleShape shape = {.stage_count = 8,
                             .micro_batch_count = 8,
                             .schedule = Schedule::kInterleaved,
                             .virtual_stage_count = 2};
  const std::string page = RenderReport(SampleReport(shape));
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_EQ(CountOf(page, "<rect class=\"forward\" x="), 8 * 8);
  EXPECT_EQ(CountOf(page, "<rect class=\"backward\" x="), 8 * 8);
  EXPECT_THAT(page, HasSubstr("stage 7, micro-batch 7, backward, "));
  EXPECT_THAT(page, HasSubstr("stages 3, 7, gradient synchronisation"));
  EXPECT_EQ(CountOf(page, "gradient synchronisation that nothing hides: "), 4);
  const std::string text = VisibleText(page);
  EXPECT_THAT(text, HasSubstr("Schedule interleaved 1F1B"));
  EXPECT_THAT(text, HasSubstr("The devices of a row have 2 stages each, one after every 4"));
  EXPECT_THAT(VisibleText(RenderReport(SampleReport({}))), Not(HasSubstr("stages each, one")));
}

TEST(RenderReport, DrawsNothingOfStagesWithoutLayers) {
  const SampleShape shape = {.stage_count = 8,
                             .micro_batch_count = 8,
                             .schedule = Schedule::kInterleaved,
                             .virtual_stage_count = 2};
  ReportInput input = SampleReport(shape);
  MoveLayersOfStage(5, input.plan);
  // Stage 1 takes twice as long, so the passes end later than in the plan that was predicted, and
  // nothing behind the end of the step is drawn.
  input.prediction.step = input.prediction.step * 1.5;
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_EQ(CountOf(page, "<rect class=\"forward\" x="), 7 * 8);
  EXPECT_EQ(CountOf(page, "<rect class=\"backward\" x="), 7 * 8);
  EXPECT_THAT(page, Not(HasSubstr("stage 5, micro-batch")));
  const std::string text = VisibleText(page);
  EXPECT_THAT(text, HasSubstr(", none"));
  EXPECT_THAT(text, HasSubstr("drawn equally long if they have layers"));
}

TEST(RenderReport, DrawsInterleavedPassesInsideTheStep) {
  // Equal stages and no messages: what is drawn ends when the prediction does.
  ReportInput input = SampleReport({.stage_count = 8,
                                    .layer_count = 48,
                                    .micro_batch_count = 8,
                                    .strategy_count = 1,
                                    .schedule = Schedule::kInterleaved,
                                    .virtual_stage_count = 2});
  std::vector<StageTimes> times;
  for (StagePrediction& stage : input.prediction.stages) {
    stage = input.prediction.stages.front();
    stage.send = stage.gradient_sync = Seconds();
  }
  for (int i = 0; i < 8; ++i) {
    const StagePrediction& stage = input.prediction.stages.front();
    times.push_back({stage.forward * 0.5, stage.backward * 0.5, {}, {}});
  }
  const PipelineRules rules = {.schedule = Schedule::kInterleaved, .virtual_stage_count = 2};
  const Seconds step = StepTime(rules, times, 8);
  input.prediction.step = step;
  EXPECT_THAT(RenderReport(input), HasSubstr(" to " + TimeText(step) + "</title>"));
}

TEST(RenderReport, DrawsMessagesThatHoldUpTheDevices) {
  ReportInput input = SampleReport({.stage_count = 4, .micro_batch_count = 8});
  for (StagePrediction& stage : input.prediction.stages) stage.send = stage.forward;
  const std::string free = RenderReport(input);
  input.blocking_messages = true;
  EXPECT_NE(RenderReport(input), free);
}

TEST(RenderReport, DrawsEveryLayerOnce) {
  // 34 cells, of which every run of n layers draws n - 1 edges between them:
  // embedding and decoders on stage 0, decoders and head on stage 1.
  const std::string page = RenderReport(SampleReport({}));
  const size_t edges = page.find("<path class=\"edges\" d=\"");
  ASSERT_NE(edges, std::string::npos);
  const std::string shapes = page.substr(edges, page.find("\"/>", edges) - edges);
  EXPECT_EQ(CountOf(shapes, "M"), 15 + 15);
}

TEST(RenderReport, ToleratesEmptyAndIdleInput) {
  // Nothing takes any time or memory, nothing has a name.
  ReportInput input;
  input.plan.device_count = 1;
  input.plan.global_batch_size = 1;
  input.plan.stages = {{0, 1, {{0, 1, {}}}}};
  input.prediction.stages.resize(1);
  const std::string page = RenderReport(input);
  EXPECT_EQ(FaultOfForm(page), "");
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf%")));
}

TEST(RenderReport, ToleratesTinyAndHugeNumbers) {
  for (const double scale : {1e-12, 1e12}) {
    ReportInput input = SampleReport({});
    for (StagePrediction& stage : input.prediction.stages) {
      stage.forward = stage.forward * scale;
      stage.backward = stage.backward * scale;
      stage.send = stage.send * scale;
      stage.gradient_sync = stage.gradient_sync * scale;
      for (Seconds& item : stage.time.duration) item = item * scale;
    }
    input.prediction.step = input.prediction.step * scale;
    const std::string page = RenderReport(input);
    EXPECT_EQ(FaultOfForm(page), "") << scale;
    EXPECT_LT(page.size(), kMaxPageBytes) << scale;
  }
}

TEST(RenderReport, IsTheSameEveryTime) {
  const ReportInput input = SampleReport({.stage_count = 8, .layer_count = 82});
  EXPECT_EQ(RenderReport(input), RenderReport(input));
}

TEST(RenderReportDeathTest, RefusesAPredictionOfAnotherPlan) {
  ReportInput input = SampleReport({});
  input.prediction.stages.pop_back();
  EXPECT_DEATH(RenderReport(input), "check failed");
}

}  // namespace
}  // namespace parplan
