#include "clients/planctl/offline_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "clients/planctl/import/galvatron_plan.h"
#include "planner/base/error.h"
#include "planner/check/plan_check.h"
#include "planner/search/find_plan.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "tests/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::PlanSpec SpecWith(const std::string& planner, int node_count = 1) {
  v1::PlanSpec spec = ExampleSpec(node_count);
  spec.mutable_options()->set_planner(planner);
  return spec;
}

TEST(PlanOffline, GivesWhatFindPlanGives) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : PlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      ASSERT_OK_AND_ASSIGN(const PlanningProblem problem,
                           OfflineProblem(spec, ExampleProfiles(node_count)));
      const absl::StatusOr<PlanningResult> expected = FindPlan(problem, planner);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!expected.ok()) {
        EXPECT_EQ(view.status(), expected.status());
        continue;
      }
      if (const auto* found = std::get_if<PlanFound>(&*expected)) {
        ASSERT_OK(view);
        EXPECT_EQ(view->plan, found->plan);
        // A payload carries times in nanoseconds.
        EXPECT_NEAR(view->prediction.step.value(), found->prediction.step.value(), 1e-9);
        EXPECT_EQ(view->search.expanded_state_count, found->search.expanded_state_count);
        EXPECT_EQ(view->payload.planner(), planner);
        EXPECT_OK(CheckPlan(problem, view->plan, found->prediction));
      } else {
        EXPECT_EQ(GetErrorDetail(view.status())->reason, Reason::kNoFeasiblePlan);
      }
    }
  }
}

TEST(PlanOffline, SaysTheMemoryThatWouldFitAndItDoes) {
  v1::PlanSpec spec = ExampleSpec();
  v1::NodeGroup& group = *spec.mutable_topology()->mutable_node_groups(0);
  group.set_device_memory_bytes(int64_t{4} << 30);
  const absl::StatusOr<PlanView> refused = PlanOffline(spec, ExampleProfiles());
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::string smallest =
      GetErrorDetail(refused.status())->metadata.at("smallestDeviceMemoryBytes");
  EXPECT_THAT(refused.status().ToString(), HasSubstr(smallest + " bytes"));
  group.set_device_memory_bytes(std::stoll(smallest));
  EXPECT_OK(PlanOffline(spec, ExampleProfiles()));
  group.set_device_memory_bytes(std::stoll(smallest) - (int64_t{2} << 20));
  EXPECT_THAT(PlanOffline(spec, ExampleProfiles()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(PlanOffline, NamesAllMissingMeasurementsAtOnce) {
  v1::Profile profile = ExampleProfiles()[0];
  profile.clear_collective_timings();
  profile.clear_overlap_slowdown();
  auto* memories = profile.mutable_layer_memories();
  memories->erase(std::remove_if(memories->begin(), memories->end(),
                                 [](const v1::LayerMemory& memory) {
                                   return memory.layer_definition_id() == "head";
                                 }),
                  memories->end());
  const absl::StatusOr<PlanView> refused = PlanOffline(ExampleSpec(), {profile});
  EXPECT_EQ(GetErrorDetail(refused.status())->reason, Reason::kProfileMissing);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("head"), HasSubstr("send-receive"),
                                      HasSubstr("overlap_slowdown"), HasSubstr("all-reduce"))));
}

TEST(PlanOffline, OfNoProfileSaysWhichFlagIsMissing) {
  EXPECT_THAT(PlanOffline(ExampleSpec(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--profile")));
}

TEST(PlanOffline, NeedsNoProfileWhereEstimatesAreAllowedAndTheDeviceIsKnown) {
  v1::PlanSpec spec = ExampleSpec();
  EXPECT_THAT(PlanOffline(spec, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--allow-estimates")));
  spec.mutable_options()->set_allow_estimates(true);
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, {}));
  EXPECT_EQ(view.prediction.confidence, Confidence::kEstimated);
  EXPECT_EQ(view.payload.profile_digest(), "");
  EXPECT_EQ(view.payload.hardware_digest().size(), 64u);
  // A profile of another kind of node is as good as none.
  v1::Profile other = ExampleProfiles()[0];
  other.set_device_kind("abacus");
  ASSERT_OK_AND_ASSIGN(const PlanView same, PlanOffline(spec, {other}));
  EXPECT_EQ(same.plan, view.plan);
  EXPECT_EQ(same.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());

  spec.mutable_topology()->mutable_node_groups(0)->set_device_kind("abacus");
  EXPECT_THAT(PlanOffline(spec, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--profile")));
}

TEST(PlanOffline, TakesTheFirstProfileWhereTwoMeasuredTheSame) {
  v1::Profile slow = ExampleProfiles()[0];
  for (v1::LayerTiming& timing : *slow.mutable_layer_timings()) {
    timing.mutable_forward_duration()->set_seconds(1);
  }
  const v1::Profile fast = ExampleProfiles()[0];
  ASSERT_OK_AND_ASSIGN(const PlanView alone, PlanOffline(ExampleSpec(), {fast}));
  ASSERT_OK_AND_ASSIGN(const PlanView first, PlanOffline(ExampleSpec(), {fast, slow}));
  ASSERT_OK_AND_ASSIGN(const PlanView second, PlanOffline(ExampleSpec(), {slow, fast}));
  EXPECT_EQ(first.prediction.step, alone.prediction.step);
  EXPECT_GT(second.prediction.step, alone.prediction.step);
}

TEST(PlanOffline, ReportsProgressOverAllCandidates) {
  std::vector<v1::SearchProgress> seen;
  ASSERT_OK(PlanOffline(ExampleSpec(), ExampleProfiles(),
                        [&seen](const v1::SearchProgress& progress) { seen.push_back(progress); }));
  ASSERT_FALSE(seen.empty());
  EXPECT_TRUE(seen.back().has_incumbent_step_duration());
  for (const v1::SearchProgress& progress : seen) {
    EXPECT_LE(progress.done_candidate_count(), progress.total_candidate_count());
    EXPECT_GE(progress.gap_ratio(), 0.0);
    EXPECT_LE(progress.gap_ratio(), 1.0);
  }
}

TEST(PlanOffline, ComparesWithEveryBaselineInTheOrderOfTheirNames) {
  v1::PlanSpec spec = SpecWith("tp");
  spec.mutable_options()->set_compare_baselines(true);
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  std::vector<std::string> names;
  for (const v1::PlannerComparison& row : view.comparisons) names.push_back(row.planner());
  EXPECT_THAT(names, ElementsAreArray(BaselineNames()));
}

TEST(CompareOffline, KeepsARowForAPlannerWithoutAPlanOfItsKind) {
  // 16 devices are more than the heads can be divided by on one node.
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::PlannerComparison> rows,
                       CompareOffline(ExampleSpec(2), ExampleProfiles(2)));
  ASSERT_EQ(rows.size(), PlannerNames().size());
  bool found = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].planner(), PlannerNames()[i]);
    if (rows[i].planner() != "tp") continue;
    found = true;
    EXPECT_FALSE(rows[i].feasible());
    EXPECT_EQ(rows[i].smallest_device_memory_bytes(), 0);
  }
  EXPECT_TRUE(found);
}

TEST(EvaluateOffline, OfEveryPlannersPlanIsItsPrediction) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : PlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!view.ok()) continue;
      ASSERT_OK_AND_ASSIGN(const PlanView evaluated,
                           EvaluateOffline(spec, ExampleProfiles(node_count), view->plan));
      EXPECT_EQ(evaluated.payload.prediction().SerializeAsString(),
                view->payload.prediction().SerializeAsString());
      EXPECT_EQ(evaluated.payload.planner(), kGivenPlanner);
    }
  }
}

TEST(EvaluateOffline, AnswersForAPlanThatDoesNotFit) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  spec.mutable_topology()->mutable_node_groups(0)->set_device_memory_bytes(int64_t{4} << 30);
  ASSERT_OK_AND_ASSIGN(const PlanView small, EvaluateOffline(spec, ExampleProfiles(), view.plan));
  EXPECT_FALSE(small.prediction.fits());
  EXPECT_EQ(small.prediction.step, view.prediction.step);
}

TEST(EvaluateOffline, RefusesAPlanOfAnotherBatch) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, ExampleProfiles()));
  spec.set_global_batch_size(128);
  EXPECT_THAT(EvaluateOffline(spec, ExampleProfiles(), view.plan),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan: is none for this")));
}

// Whether tensor-parallel layers split the sequence, which the format of others
// does not say.
bool SplitsSequence(const Plan& plan) {
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.strategy.sequence_parallel) return true;
    }
  }
  return false;
}

TEST(EvaluateOffline, OfAPlanThatWentThroughGalvatronsFormatIsUnchanged) {
  int exported_count = 0;
  for (int node_count : {1, 2}) {
    for (const std::string& planner : PlannerNames()) {
      SCOPED_TRACE(planner);
      const v1::PlanSpec spec = SpecWith(planner, node_count);
      const absl::StatusOr<PlanView> view = PlanOffline(spec, ExampleProfiles(node_count));
      if (!view.ok()) continue;
      ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(spec.model()));
      const absl::StatusOr<std::string> text = ExportGalvatronPlan(view->plan, model);
      if (!text.ok()) {
        EXPECT_THAT(text, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("Galvatron's format can't hold that")));
        continue;
      }
      ++exported_count;
      GalvatronPlanOptions options;
      options.sequence_parallel = SplitsSequence(view->plan);
      ASSERT_OK_AND_ASSIGN(const GalvatronPlanImport again,
                           ImportGalvatronPlan({"plan.json", *text}, model, options));
      ASSERT_OK_AND_ASSIGN(const PlanView evaluated,
                           EvaluateOffline(spec, ExampleProfiles(node_count), again.plan));
      EXPECT_EQ(evaluated.prediction.step, view->prediction.step);
      EXPECT_EQ(evaluated.prediction.peak_memory, view->prediction.peak_memory);
    }
  }
  EXPECT_GE(exported_count, 4);
}

TEST(ViewOfFile, GivesTheUnsignedPlanThatWasWritten) {
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(ExampleSpec(), ExampleProfiles()));
  ASSERT_OK_AND_ASSIGN(const PlanView read, ViewOfFile(ToReadableJson(view.payload), "plan.json"));
  EXPECT_EQ(read.plan, view.plan);
  EXPECT_EQ(read.payload.SerializeAsString(), view.payload.SerializeAsString());
  EXPECT_THAT(read.signature, IsEmpty());
}

TEST(ViewOfFile, RefusesWhatIsNoPlan) {
  EXPECT_THAT(ViewOfFile("{}", "plan.json"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ViewOfFile("", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan.json")));
  EXPECT_THAT(ViewOfFile(R"({"payloadType": "x"})", "plan.json"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan::planctl
