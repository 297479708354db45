// PlanText and ComparisonText: everything is said, and no line is too long.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/quantity_text.h"
#include "clients/planctl/offline/offline_planner.h"
#include "clients/planctl/view/plan_text.h"
#include "clients/planctl/view/plan_view.h"
#include "clients/report/html.h"
#include "planner/find_plan.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<PlanView> View(const std::string& planner, int node_count = 1) {
  v1::PlanSpec spec = ExampleSpec(node_count);
  spec.mutable_options()->set_planner(planner);
  spec.mutable_options()->set_compare_baselines(true);
  return PlanOffline(spec, ExampleProfiles(node_count));
}

TEST(PlanText, HasEveryStageRunAndItem) {
  for (const char* planner : {"galvatron-base", "deepspeed-3d", "pp"}) {
    ASSERT_OK_AND_ASSIGN(const PlanView view, View(planner));
    const std::string text = PlanText(view);
    for (size_t i = 0; i < view.plan.stages.size(); ++i) {
      EXPECT_THAT(text, HasSubstr(absl::StrCat("\nstage ", i, " ")));
      for (const StageLayerRun& run : view.plan.stages[i].layer_runs) {
        const std::string range = run.layer_count == 1
                                      ? absl::StrCat("layer ", run.first_layer_index)
                                      : absl::StrCat("layers ", run.first_layer_index, "-",
                                                     run.first_layer_index + run.layer_count - 1);
        EXPECT_THAT(text, HasSubstr(absl::StrCat("\n  ", range, " ")));
      }
      for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
        const Bytes size = view.prediction.stages[i].memory.size[kind];
        if (size == Bytes()) continue;
        EXPECT_THAT(text, HasSubstr(report::Name(static_cast<MemoryItemKind>(kind))));
        EXPECT_THAT(text, HasSubstr(SizeText(size)));
      }
    }
    EXPECT_THAT(text, AllOf(HasSubstr(view.prediction.bottleneck_text),
                            HasSubstr(TimeText(view.prediction.step)),
                            HasSubstr(SizeText(view.prediction.peak_memory)),
                            HasSubstr("llama2-7b"), HasSubstr(planner)));
  }
}

TEST(PlanText, NamesStagesWithoutLayers) {
  ASSERT_OK_AND_ASSIGN(PlanView view, View("pp"));
  ASSERT_GT(view.plan.stages.size(), 2u);
  EXPECT_THAT(PlanText(view), Not(HasSubstr("no layers")));
  view.plan.stages[1].layer_runs.clear();
  view.payload.mutable_stages(1)->clear_layer_runs();
  EXPECT_THAT(PlanText(view), HasSubstr("\n  no layers: hands on what it receives\n"));
  ExpectTidy(PlanText(view));
}

TEST(PlanText, IsTidyForEveryPlanner) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : QuickPlannerNames()) {
      const absl::StatusOr<PlanView> view = View(planner, node_count);
      if (!view.ok()) continue;
      SCOPED_TRACE(planner);
      ExpectTidy(PlanText(*view));
    }
  }
}

TEST(PlanText, OfAPlanThatWasGivenShowsNoSearch) {
  ASSERT_OK_AND_ASSIGN(const PlanView view, View("dp+tp"));
  ASSERT_OK_AND_ASSIGN(const PlanView given,
                       EvaluateOffline(ExampleSpec(), ExampleProfiles(), view.plan));
  EXPECT_THAT(PlanText(given),
              AllOf(HasSubstr("none: the plan was given"), Not(HasSubstr("candidates"))));
}

TEST(PlanText, SaysThatAPlanDoesNotFit) {
  ASSERT_OK_AND_ASSIGN(PlanView view, View("sdp"));
  ASSERT_TRUE(view.prediction.fits());
  EXPECT_THAT(PlanText(view), Not(HasSubstr("does not fit")));
  view.prediction.usable_memory = view.prediction.peak_memory_upper - Bytes::Of(1);
  EXPECT_THAT(PlanText(view), HasSubstr(" usable per device: does not fit\n"));
  ExpectTidy(PlanText(view));
}

// `view` with a plan that is a quarter slower and needs half as much.
PlanView WithPlansBeside(PlanView view) {
  PlanBeside beside;
  beside.plan = view.plan;
  beside.step = view.prediction.step * 1.25;
  beside.samples_per_second = view.prediction.samples_per_second / 1.25;
  beside.peak_memory = Bytes::Ceil(view.prediction.peak_memory.as_double() * 0.5);
  view.alternatives = {beside};
  view.memory_front = {beside, beside};
  view.notes = {"alpha_t 0.5, alpha_m 0.25"};
  return view;
}

TEST(PlanText, ShowsThePlansBesideItAndHowTheyDiffer) {
  ASSERT_OK_AND_ASSIGN(PlanView alone, View("deepspeed-3d"));
  EXPECT_THAT(BesideText(alone), HasSubstr("  - partitioner best\n"));
  alone.notes.clear();
  EXPECT_EQ(BesideText(alone), "");
  const PlanView view = WithPlansBeside(alone);
  const std::string text = PlanText(view);
  EXPECT_THAT(text, HasSubstr(BesideText(view)));
  EXPECT_THAT(
      BesideText(view),
      AllOf(HasSubstr("next best plans"), HasSubstr("time against memory"), HasSubstr("+25.0 %"),
            HasSubstr("-50.0 %"), HasSubstr(TimeText(view.alternatives.front().step)),
            HasSubstr("alpha_t 0.5, alpha_m 0.25")));
  ExpectTidy(text);
}

TEST(PlanText, SaysHowTheSearchEnded) {
  ASSERT_OK_AND_ASSIGN(PlanView view, View("deepspeed-3d"));
  view.search.termination = Termination::kOptimal;
  EXPECT_THAT(PlanText(view), HasSubstr("deepspeed-3d: OPTIMAL in the space of this planner"));
  view.payload.set_planner("exact");
  EXPECT_THAT(PlanText(view), HasSubstr("exact: OPTIMAL in the declared space"));
  view.search.termination = Termination::kFeasible;
  view.search.gap_ratio = 0.031;
  view.search.bound = Seconds::Of(1.5);
  for (const auto& [limit, words] : std::vector<std::pair<SearchLimit, std::string>>{
           {SearchLimit::kTime, "its limit of time"},
           {SearchLimit::kStates, "its limit of states"},
           {SearchLimit::kCancelled, "an interrupt"},
           {SearchLimit::kMethod, "the planner's own method"},
           {SearchLimit::kGap, "the gap asked for"},
           {SearchLimit::kMemory, "its limit of memory"}}) {
    view.search.limit = limit;
    std::string text = PlanText(view);
    text.resize(text.find("stage 0"));
    for (size_t at; (at = text.find("\n             ")) != std::string::npos;) {
      text.replace(at, 14, " ");
    }
    EXPECT_THAT(text, AllOf(HasSubstr("FEASIBLE, at most 3.1 % from the proved bound of 1.50 s"),
                            HasSubstr("ended by " + words)));
  }
}

TEST(ComparisonText, FoldsEqualStagesAndSaysWhyThereIsNoPlan) {
  v1::PlannerComparison pipeline;
  pipeline.set_planner("pp");
  pipeline.set_feasible(true);
  pipeline.set_samples_per_second(10.0);
  pipeline.set_peak_memory_bytes(1'000'000'000);
  pipeline.set_gist("4-1-1 x4 | 4-1-1 x4 | 4-1-1 x4 | 4-1-1 x5");
  v1::PlannerComparison large;
  large.set_planner("dp");
  large.set_smallest_device_memory_bytes(135'000'000'000);
  v1::PlannerComparison none;
  none.set_planner("tp");
  v1::PlannerComparison stopped;
  stopped.set_planner("sdp");
  stopped.set_stopped_early(true);
  large.set_smallest_device_count(32);
  const std::string text = ComparisonText({pipeline, large, none, stopped});
  EXPECT_THAT(text, AllOf(HasSubstr("4-1-1 x4 (3 stages) | 4-1-1 x5"),
                          HasSubstr("needs 135 GB per device, or 32 devices"),
                          HasSubstr("no such plan"), HasSubstr("stopped before any plan")));
  EXPECT_THAT(text, HasSubstr("100%"));
  ExpectTidy(text);
}

TEST(ComparisonText, HasOneColumnBehindNamesOfAnyLength) {
  v1::PlannerComparison row;
  row.set_feasible(true);
  row.set_samples_per_second(1.0);
  row.set_gist("8-1-1 x4");
  v1::PlannerComparison long_name = row;
  row.set_planner("dp");
  long_name.set_planner("colossal-auto-like");
  const std::string text = ComparisonText({row, long_name});
  const size_t first = text.find('\n') + 1;
  const size_t second = text.find('\n', first) + 1;
  EXPECT_EQ(text.find("100%", first) - first, text.find("100%", second) - second) << text;
}

TEST(ComparisonText, IsTidyForLongGists) {
  v1::PlannerComparison row;
  row.set_planner("pp");
  row.set_feasible(true);
  row.set_samples_per_second(1.0);
  std::string gist = "64-1-1 x1";
  for (int i = 1; i < 64; ++i) absl::StrAppend(&gist, " | 64-1-1 x", i % 3);
  row.set_gist(gist);
  ExpectTidy(ComparisonText({row}));
}

}  // namespace
}  // namespace parplan::planctl
