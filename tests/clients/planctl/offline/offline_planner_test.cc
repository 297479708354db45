#include "clients/planctl/offline/offline_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/error.h"
#include "planner/check/plan_check.h"
#include "planner/find_plan.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/published_calibration.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(PlanOffline, GivesWhatFindPlanGives) {
  for (int node_count : {1, 2}) {
    for (const std::string& planner : QuickPlannerNames()) {
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

// The exporters of these programs would refuse every answer.
TEST(PlanOffline, RefusesAModelThatTheTargetDoesNotRunBeforeItSearches) {
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_model()->mutable_layer_definitions(1)->set_kind(v1::LAYER_KIND_ENCODER);
  for (const char* const target : {"megatron", "deepspeed", "torchtitan", "accelerate"}) {
    spec.mutable_options()->set_target(target);
    const auto is_refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        AllOf(HasSubstr("model.layer_runs: must be an embedding, decoder layers and a head, and "
                        "layer 1 is"),
              HasSubstr("can't run that, whatever the plan")));
    EXPECT_THAT(PlanOffline(spec, ExampleProfiles()).status(), is_refused) << target;
    EXPECT_THAT(CompareOffline(spec, ExampleProfiles()).status(), is_refused) << target;
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

TEST(PlanOffline, OfADeviceNobodyKnowsNeedsAProfile) {
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_topology()->mutable_node_groups(0)->set_device_kind("abacus");
  for (const bool allow_estimates : {false, true}) {
    spec.mutable_options()->set_allow_estimates(allow_estimates);
    EXPECT_THAT(PlanOffline(spec, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                AllOf(HasSubstr("--profile: "), HasSubstr("abacus"),
                                                      HasSubstr("planctl hardware list"))));
  }
}

TEST(PlanOffline, WithoutAProfileOfAKnownDeviceIsEstimated) {
  v1::PlanSpec spec = ExampleSpec();
  ASSERT_OK_AND_ASSIGN(const PlanView unasked, PlanOffline(spec, {}));
  spec.mutable_options()->set_allow_estimates(true);
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, {}));
  EXPECT_EQ(unasked.plan, view.plan);
  EXPECT_EQ(unasked.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());
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
  // A profile that was named is meant: without leave to estimate it must serve.
  spec.mutable_options()->set_allow_estimates(false);
  EXPECT_EQ(GetErrorDetail(PlanOffline(spec, {other}).status())->reason, Reason::kProfileMissing);
}

// Everything takes `factor` times as long as data sheets say.
std::shared_ptr<const Calibration> TimesFactor(double factor) {
  Calibration::Content content = PublishedCalibration()->content();
  content.coefficient_values.push_back(
      {.coefficient = Coefficient::kTimeFactor, .scope = {}, .value = factor});
  content.digest = CalibrationDigest(content);
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  EXPECT_OK(calibration);
  return std::make_shared<const Calibration>(*std::move(calibration));
}

TEST(PlanOffline, RestsOnTheCalibrationAndSaysOnWhich) {
  const std::shared_ptr<const Calibration> slow = TimesFactor(1.25);
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_options()->set_runtime_id("megatron-core");
  ASSERT_OK_AND_ASSIGN(const PlanView usual, PlanOffline(spec, {}));
  ASSERT_OK_AND_ASSIGN(const PlanView view, PlanOffline(spec, {}, slow));
  EXPECT_GT(view.prediction.step, usual.prediction.step);
  EXPECT_EQ(usual.payload.calibration_digest(), PublishedCalibration()->content().digest);
  EXPECT_EQ(view.payload.calibration_digest(), slow->content().digest);
  EXPECT_NE(view.payload.calibration_digest(), usual.payload.calibration_digest());
  EXPECT_EQ(view.payload.runtime_id(), "megatron-core");
  EXPECT_EQ(view.payload.hardware_digest().size(), 64u);

  ASSERT_OK_AND_ASSIGN(const PlanView evaluated, EvaluateOffline(spec, {}, view.plan, slow));
  EXPECT_EQ(evaluated.payload.prediction().SerializeAsString(),
            view.payload.prediction().SerializeAsString());
  EXPECT_EQ(evaluated.payload.calibration_digest(), slow->content().digest);
  for (const std::string& baseline : BaselineNames()) {
    SCOPED_TRACE(baseline);
    spec.mutable_options()->set_planner(baseline);
    const absl::StatusOr<PlanView> usual_baseline = PlanOffline(spec, {});
    const absl::StatusOr<PlanView> slow_baseline = PlanOffline(spec, {}, slow);
    ASSERT_EQ(usual_baseline.ok(), slow_baseline.ok());
    if (!slow_baseline.ok()) continue;
    EXPECT_GT(slow_baseline->prediction.step, usual_baseline->prediction.step);
  }
}

// Integer programs take their time, so a clock ends the search of every planner, which may have got
// further under one calibration than under the other: hardly by a factor as between these.
TEST(CompareOffline, RestsOnTheCalibration) {
  v1::PlanSpec spec = ExampleSpec();
  spec.mutable_options()->mutable_search_time_limit()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto fast_rows, CompareOffline(spec, {}, TimesFactor(0.5)));
  ASSERT_OK_AND_ASSIGN(const auto slow_rows, CompareOffline(spec, {}, TimesFactor(2.0)));
  ASSERT_EQ(slow_rows.size(), fast_rows.size());
  for (size_t i = 0; i < slow_rows.size(); ++i) {
    if (!slow_rows[i].feasible() || !fast_rows[i].feasible()) continue;
    EXPECT_LT(slow_rows[i].samples_per_second(), fast_rows[i].samples_per_second())
        << slow_rows[i].planner();
  }
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
  SearchWatch watch;
  watch.on_progress = [&seen](const v1::SearchProgress& progress) { seen.push_back(progress); };
  ASSERT_OK(PlanOffline(ExampleSpec(), ExampleProfiles(), nullptr, watch));
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
  // 16 devices are more than the heads can be divided by on one node. Integer programs
  // take their time.
  v1::PlanSpec spec = ExampleSpec(2);
  spec.mutable_options()->mutable_search_time_limit()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::PlannerComparison> rows,
                       CompareOffline(spec, ExampleProfiles(2)));
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

}  // namespace
}  // namespace parplan::planctl
