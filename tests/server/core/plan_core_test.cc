#include "server/core/plan_core.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Verdict = v1::VerifyPlanResponse;

class PlanCoreTest : public CoreTest {
 protected:
  v1::VerifyPlanResponse Verify(const v1::Plan& plan, const std::string& job_id = "") {
    v1::VerifyPlanRequest request;
    *request.mutable_signed_plan() = plan.signed_plan();
    request.set_job_id(job_id);
    return core().plans().VerifyPlan(request);
  }
};

// The payload without the fields that differ between two issues of a plan.
std::string TimelessPayload(const v1::Plan& plan) {
  v1::PlanPayload payload = PayloadOf(plan);
  payload.clear_plan();
  payload.clear_issue_time();
  payload.clear_expire_time();
  return payload.SerializeAsString();
}

TEST_F(PlanCoreTest, APlanIsSignedStoredAndSaysWhatItWasMadeFor) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_job_id("job-7");
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  EXPECT_FALSE(plan->from_cache());
  EXPECT_EQ(plan->spec().SerializeAsString(), request.spec().SerializeAsString());
  const v1::PlanPayload payload = PayloadOf(*plan);
  EXPECT_EQ(payload.plan(), plan->name());
  EXPECT_EQ(payload.cluster(), "synthetic");
  EXPECT_EQ(payload.job_id(), "job-7");
  EXPECT_EQ(payload.device_count(), 8);
  EXPECT_EQ(payload.topology_digest().size(), 64u);
  EXPECT_EQ(payload.planner(), "exact");
  EXPECT_EQ(payload.expire_time().seconds() - payload.issue_time().seconds(), 24 * 3600);
  EXPECT_EQ(Verify(*plan, "job-7").verdict(), Verdict::VALID);
  EXPECT_EQ(Verify(*plan, "job-8").verdict(), Verdict::WRONG_AUDIENCE);

  v1::GetPlanRequest get;
  get.set_name(plan->name());
  ASSERT_OK_AND_ASSIGN(const v1::Plan stored, core().plans().GetPlan(get));
  EXPECT_EQ(stored.SerializeAsString(), plan->SerializeAsString());
  EXPECT_THAT(observer.plans(), SizeIs(1));
  EXPECT_GT(observer.plans()[0].predicted_peak_memory, Bytes());
}

TEST_F(PlanCoreTest, TheSameQuestionGivesTheSamePlanWithoutASearch) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(Question()));
  EXPECT_TRUE(second->from_cache());
  EXPECT_EQ(second->signed_plan().SerializeAsString(), first->signed_plan().SerializeAsString());
  EXPECT_EQ(planner.search_count, 1);
  EXPECT_EQ(observer.hits[static_cast<int>(CacheKind::kPlan)], 1);
}

TEST_F(PlanCoreTest, AServerThatStartsAgainFindsThePlanInItsStore) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  Start(store().OpenAgain());
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(Question()));
  EXPECT_EQ(second->name(), first->name());
  EXPECT_TRUE(second->from_cache());
  EXPECT_EQ(planner.search_count, 1);
}

// A plan in memory or in the store is given again only while a trusted key signed it.
TEST_F(PlanCoreTest, APlanOfARevokedKeyIsSignedAnew) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_job_id("job-7");
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(request));
  RevokeKeys();
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(request));
  EXPECT_FALSE(second->from_cache());
  EXPECT_EQ(Verify(*first).verdict(), Verdict::BAD_SIGNATURE);
  EXPECT_THAT(Verify(*first).detail(), HasSubstr("revoked"));
  EXPECT_EQ(Verify(*second).verdict(), Verdict::VALID);
  EXPECT_EQ(PayloadOf(*second).generation(), 2);
  EXPECT_EQ(PayloadOf(*second).supersedes(), first->name());
  EXPECT_EQ(planner.search_count, 1) << "the answer is known";
  ASSERT_OK_AND_ASSIGN(const SharedPlan third, Ask(request));
  EXPECT_TRUE(third->from_cache());
  EXPECT_EQ(third->name(), second->name());
}

TEST_F(PlanCoreTest, AServerThatStartsAgainTrustsNoStoredPlanOfARevokedKey) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  RevokeKeys();
  Start(store().OpenAgain());
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(Question()));
  EXPECT_FALSE(second->from_cache());
  EXPECT_EQ(Verify(*second).verdict(), Verdict::VALID);
}

// Servers on one store may have keys of their own, and hand out a bundle of all.
TEST_F(PlanCoreTest, APlanOfAServerWithOtherKeysIsGivenOut) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_job_id("job-7");
  request.set_request_id("4c1b1f5e-0000-4000-8000-000000000002");
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(request));
  UseOtherKeys();
  Start(store().OpenAgain());
  ASSERT_OK_AND_ASSIGN(const SharedPlan retried, Ask(request));
  EXPECT_EQ(retried->name(), first->name());
  request.clear_request_id();
  ASSERT_OK_AND_ASSIGN(const SharedPlan asked, Ask(request));
  EXPECT_EQ(asked->name(), first->name());
  EXPECT_EQ(planner.search_count, 1);
}

TEST_F(PlanCoreTest, ARetryOfAPlanOfARevokedKeyIsRefusedWithAReason) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_request_id("4c1b1f5e-0000-4000-8000-000000000001");
  ASSERT_OK(Ask(request));
  ASSERT_OK(Ask(request));
  RevokeKeys();
  const absl::StatusOr<SharedPlan> retried = Ask(request);
  EXPECT_THAT(retried, StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("ask again with a new request_id")));
  EXPECT_EQ(ReasonOf(retried), Reason::kSignatureInvalid);
}

TEST_F(PlanCoreTest, WhenNothingCanSignTheObserverAndTheCallerHearIt) {
  StartMeasured();
  EXPECT_OK(core().CheckSigning());
  EXPECT_EQ(observer.signing_key_count(), 1);
  BlockKeys();
  clock.Advance(absl::Hours(24 * 100));
  EXPECT_FALSE(core().CheckSigning().ok());
  EXPECT_EQ(observer.signing_key_count(), 0);
  const absl::StatusOr<SharedPlan> refused = Ask(Question());
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no key may sign")));
  EXPECT_EQ(ReasonOf(refused), Reason::kStoreUnavailable);
}

// The clock was ahead at the start and is set right: nobody has to act.
TEST_F(PlanCoreTest, AServerWhoseKeysAreFromTheFutureMakesOneForNow) {
  clock.Jump(absl::Hours(24 * 130));
  StartMeasured();
  ASSERT_OK(core().Maintain());
  clock.Jump(-absl::Hours(24 * 130 + 200));
  EXPECT_OK(core().CheckSigning());
  EXPECT_EQ(observer.signing_key_count(), 1);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  EXPECT_EQ(Verify(*plan).verdict(), Verdict::VALID);
}

TEST_F(PlanCoreTest, AnotherJobGetsItsOwnPlanWithoutASearch) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_job_id("one");
  ASSERT_OK_AND_ASSIGN(const SharedPlan one, Ask(request));
  request.set_job_id("two");
  ASSERT_OK_AND_ASSIGN(const SharedPlan two, Ask(request));
  EXPECT_NE(two->name(), one->name());
  EXPECT_EQ(PayloadOf(*two).job_id(), "two");
  EXPECT_EQ(planner.search_count, 1);
}

TEST_F(PlanCoreTest, OtherNamesForTheSameLayersAreToldInTheNamesOfTheCaller) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  v1::CreatePlanRequest request = Question();
  v1::ModelSpec& model = *request.mutable_spec()->mutable_model();
  model.mutable_layer_definitions(1)->set_layer_definition_id("renamed");
  model.mutable_layer_runs(1)->set_layer_definition_id("renamed");
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  EXPECT_THAT(PayloadOf(*plan).DebugString(), HasSubstr("\"renamed\""));
}

TEST_F(PlanCoreTest, AQuestionAskedAgainAfterExpiryGivesTheSameAnswerUnderAnotherName) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  clock.Advance(absl::Hours(25));
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(Question()));
  EXPECT_FALSE(second->from_cache());
  EXPECT_NE(second->name(), first->name());
  EXPECT_EQ(TimelessPayload(*second), TimelessPayload(*first));
  EXPECT_EQ(Verify(*first).verdict(), Verdict::EXPIRED);
  EXPECT_EQ(Verify(*second).verdict(), Verdict::VALID);
}

TEST_F(PlanCoreTest, APlanIsGivenAgainOnlyWithATenthOfItsLifeLeft) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.mutable_time_to_live()->set_seconds(1000);
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(request));
  clock.Advance(absl::Seconds(900));
  EXPECT_EQ((*Ask(request))->name(), first->name());
  clock.Advance(absl::Seconds(1));
  EXPECT_NE((*Ask(request))->name(), first->name());
}

TEST_F(PlanCoreTest, AClockSetBackOrForwardNeitherRefusesNorServesAPlanWrongly) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  for (const absl::Duration jump :
       {-absl::Hours(1), absl::Hours(48), -absl::Hours(47), absl::Seconds(-30)}) {
    clock.Jump(jump);
    ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
    EXPECT_EQ(Verify(*plan).verdict(), Verdict::VALID) << absl::FormatDuration(jump);
  }
  EXPECT_EQ(planner.search_count, 1);
}

TEST_F(PlanCoreTest, ANewProfileMeansANewPlan) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(Question()));
  v1::Profile newer = SyntheticProfile({});
  newer.set_overlap_slowdown(1.5);
  ASSERT_OK(Upload(newer, "second-upload").status());
  ASSERT_OK_AND_ASSIGN(const SharedPlan second, Ask(Question()));
  EXPECT_NE(PayloadOf(*second).profile_digest(), PayloadOf(*first).profile_digest());
  EXPECT_EQ(planner.search_count, 2);
}

TEST_F(PlanCoreTest, ARetryGetsThePlanMadeFirstEvenOverNewProfiles) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_request_id("0b7a");
  ASSERT_OK_AND_ASSIGN(const SharedPlan first, Ask(request));
  v1::Profile newer = SyntheticProfile({});
  newer.set_overlap_slowdown(1.5);
  ASSERT_OK(Upload(newer, "second-upload").status());
  EXPECT_EQ((*Ask(request))->name(), first->name());
  request.mutable_spec()->set_global_batch_size(32);
  EXPECT_EQ(ReasonOf(Ask(request).status()), Reason::kRequestIdReused);
}

TEST_F(PlanCoreTest, WhatNothingFitsSaysHowMuchWouldAndIsRemembered) {
  SyntheticOptions options;
  options.device_memory = Bytes::Of(int64_t{600} << 20);
  options.memory_scale = 8;
  StartMeasured(options);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Ask(Question(options)).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(ReasonOf(status), Reason::kNoFeasiblePlan);
    EXPECT_GT(std::stoll(FactOf(status, "smallestDeviceMemoryBytes")),
              options.device_memory.count());
  }
  EXPECT_EQ(planner.search_count, 1);
}

TEST_F(PlanCoreTest, MissingMeasurementsAreAllListed) {
  Start();
  EXPECT_EQ(ReasonOf(Ask(Question()).status()), Reason::kProfileMissing);
  v1::Profile profile = SyntheticProfile({});
  profile.clear_collective_timings();
  ASSERT_OK(Upload(profile, "one").status());
  const absl::Status status = Ask(Question()).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(status), Reason::kProfileMissing) << status;
  int count = 0;
  ASSERT_TRUE(absl::SimpleAtoi(FactOf(status, "count"), &count)) << status;
  EXPECT_GT(count, 1);
  EXPECT_FALSE(FactOf(status, "missing1").empty()) << status;
}

TEST_F(PlanCoreTest, EveryRuleOfTheRequestHasItsField) {
  StartMeasured();
  const auto field = [this](const std::function<void(v1::CreatePlanRequest&)>& change) {
    v1::CreatePlanRequest request = Question();
    change(request);
    const absl::Status status = Ask(request).status();
    EXPECT_EQ(ReasonOf(status), Reason::kSpecInvalid) << status;
    return FactOf(status, "field");
  };
  EXPECT_EQ(field([](auto& request) { request.set_parent("cluster"); }), "parent");
  EXPECT_EQ(field([](auto& request) { request.set_parent("clusters/other"); }), "parent");
  EXPECT_EQ(field([](auto& request) { request.clear_spec(); }), "spec");
  EXPECT_EQ(field([](auto& request) { request.set_job_id(std::string(129, 'j')); }), "job_id");
  // A database would take what follows for nothing.
  EXPECT_EQ(field([](auto& request) { request.set_job_id(std::string("j\0x", 3)); }), "job_id");
  EXPECT_EQ(field([](auto& request) { request.set_request_id(std::string("r\0a", 3)); }),
            "request_id");
  EXPECT_EQ(field([](auto& request) { request.set_request_id("r\n"); }), "request_id");
  EXPECT_EQ(field([](auto& request) { request.mutable_time_to_live(); }), "time_to_live");
  EXPECT_EQ(
      field([](auto& request) { request.mutable_spec()->mutable_options()->set_planner("magic"); }),
      "spec.options.planner");
  EXPECT_EQ(field([](auto& request) { request.mutable_spec()->set_global_batch_size(0); }),
            "spec.global_batch_size");
  EXPECT_EQ(field([](auto& request) {
              request.mutable_spec()->mutable_topology()->mutable_node_groups(0)->set_node_count(0);
            }),
            "spec.topology.node_groups[0].node_count");
  EXPECT_THAT(observer.searches(), IsEmpty());
}

TEST_F(PlanCoreTest, ATimeToLiveIsCutToTheLimit) {
  limits.max_time_to_live = absl::Hours(2);
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.mutable_time_to_live()->set_seconds(1000000);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  EXPECT_EQ(plan->expire_time().seconds() - plan->create_time().seconds(), 2 * 3600);
}

// A database would take the end of this one for nothing, and find the plan of another.
TEST_F(PlanCoreTest, ARequestIdIsLookedAtBeforeTheStoreIsAsked) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_request_id(std::string("r\0a", 3));
  store().SetBroken(true);
  const absl::StatusOr<SharedPlan> refused = Ask(request);
  EXPECT_EQ(FactOf(refused.status(), "field"), "request_id") << refused.status();
}

TEST_F(PlanCoreTest, AStoreThatFailsAtAnyStepGivesUnavailableAndNothingHalfDone) {
  StartMeasured();
  int failures = 0;
  for (int calls = 0; calls < 100; ++calls) {
    v1::CreatePlanRequest request = Question();
    request.set_job_id("job");
    request.set_request_id("request");
    store().BreakAfter(calls);
    const absl::StatusOr<SharedPlan> plan = Ask(request);
    store().SetBroken(false);
    if (plan.ok()) break;
    ++failures;
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_EQ(*store().CountPlans("synthetic"), 0);
  }
  EXPECT_GE(failures, 4);
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
}

TEST_F(PlanCoreTest, ComparesEveryBaselineInTheOrderOfThePlanners) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.mutable_spec()->mutable_options()->set_compare_baselines(true);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  std::vector<std::string> names;
  double best_baseline = 0.0;
  for (const v1::PlannerComparison& comparison : plan->comparisons()) {
    names.push_back(comparison.planner());
    if (comparison.feasible() && comparison.planner() != "exact") {
      best_baseline = std::max(best_baseline, comparison.samples_per_second());
    }
  }
  std::vector<std::string> expected;
  for (const std::string& name : PlannerNames()) {
    const auto& baselines = BaselineNames();
    if (name == "exact" || std::find(baselines.begin(), baselines.end(), name) != baselines.end()) {
      expected.push_back(name);
    }
  }
  EXPECT_EQ(names, expected);
  EXPECT_GE(PayloadOf(*plan).prediction().samples_per_second(), best_baseline * (1 - 1e-9));
}

TEST_F(PlanCoreTest, ListsNewestFirstWithoutSpecs) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.set_job_id("one");
  ASSERT_OK_AND_ASSIGN(const SharedPlan one, Ask(request));
  request.set_job_id("two");
  ASSERT_OK_AND_ASSIGN(const SharedPlan two, Ask(request));
  v1::ListPlansRequest list;
  list.set_parent("clusters/synthetic");
  list.set_page_size(1);
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse first, core().plans().ListPlans(list));
  ASSERT_EQ(first.plans_size(), 1);
  EXPECT_EQ(first.plans(0).name(), two->name());
  EXPECT_FALSE(first.plans(0).has_spec());
  list.set_page_token(first.next_page_token());
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse second, core().plans().ListPlans(list));
  EXPECT_EQ(second.plans(0).name(), one->name());
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(PlanCoreTest, VerifyPlanGivesEveryRefusalItsVerdict) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  v1::Plan altered = *plan;
  (*altered.mutable_signed_plan()->mutable_payload())[10] ^= 1;
  EXPECT_EQ(Verify(altered).verdict(), Verdict::BAD_SIGNATURE);
  v1::VerifyPlanRequest request;
  *request.mutable_signed_plan() = plan->signed_plan();
  request.set_topology_digest(std::string(64, '1'));
  EXPECT_EQ(core().plans().VerifyPlan(request).verdict(), Verdict::WRONG_TOPOLOGY);
  const v1::VerifyPlanResponse valid = Verify(*plan);
  EXPECT_EQ(valid.key_id(), plan->signed_plan().signatures(0).key_id());
  EXPECT_THAT(observer.verdicts(),
              ElementsAre(VerifyOutcome::kBadSignature, VerifyOutcome::kWrongTopology,
                          VerifyOutcome::kValid));
}

TEST_F(PlanCoreTest, CapabilitiesListTheLimitsThePlannersAndTheKeys) {
  limits.max_queue_length = 7;
  StartMeasured();
  const v1::Capabilities capabilities = core().plans().GetCapabilities();
  EXPECT_EQ(capabilities.max_queue_length(), 7);
  EXPECT_EQ(capabilities.planners(0), PlannerNames().front());
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  EXPECT_EQ(capabilities.verification_keys(0).key_id(), plan->signed_plan().signatures(0).key_id());
}

TEST_F(PlanCoreTest, MaintenanceForgetsPlansThatExpiredLongAgo) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
  clock.Advance(absl::Hours(24 * 32));
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(*store().CountPlans("synthetic"), 0);
}

TEST_F(PlanCoreTest, NothingIsDeletedOnOneReadingOfAClock) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  // Ahead at the start, and at every reading close to it.
  clock.Jump(absl::Hours(24 * 365));
  ASSERT_OK(core().Maintain());
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
  // Set right, and ahead once more.
  clock.Jump(-absl::Hours(24 * 365));
  clock.Advance(absl::Hours(1));
  ASSERT_OK(core().Maintain());
  clock.Advance(absl::Hours(1));
  clock.Jump(absl::Hours(24 * 365));
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(*store().CountPlans("synthetic"), 1);
  // So it is the time after all.
  clock.Advance(absl::Hours(1));
  ASSERT_OK(core().Maintain());
  EXPECT_EQ(*store().CountPlans("synthetic"), 0);
}

TEST_F(PlanCoreTest, AnUnmeasuredDeviceOfTheLibraryIsPlannedForByEstimatesWhereAskedFor) {
  Start();
  v1::CreatePlanRequest request = Question();
  v1::NodeGroup& group = *request.mutable_spec()->mutable_topology()->mutable_node_groups(0);
  group.set_device_kind("NVIDIA A100-SXM4-80GB");
  const absl::Status refused = Ask(request).status();
  EXPECT_EQ(ReasonOf(refused), Reason::kProfileMissing);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("allow_estimates"));
  EXPECT_EQ(planner.search_count, 0);

  request.mutable_spec()->mutable_options()->set_allow_estimates(true);
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(request));
  const v1::PlanPayload payload = PayloadOf(*plan);
  EXPECT_EQ(payload.prediction().confidence(), v1::CONFIDENCE_ESTIMATED);
  EXPECT_EQ(payload.profile_digest(), "");
  EXPECT_EQ(payload.hardware_digest().size(), 64u);
  EXPECT_EQ((*Ask(request))->name(), plan->name());
  ASSERT_EQ(observer.plans().size(), 1u);
  EXPECT_FALSE(observer.plans()[0].profile_age.has_value());
}

}  // namespace
}  // namespace parplan
