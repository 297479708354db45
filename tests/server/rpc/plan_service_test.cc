#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::Contains;

TEST(PlanService, CapabilitiesListPlannersLimitsAndKeys) {
  Limits limits = RpcHarness::TestLimits();
  limits.max_queue_length = 7;
  RpcHarness harness(limits);
  ASSERT_OK_AND_ASSIGN(const v1::Capabilities capabilities, harness.plans().GetCapabilities());
  EXPECT_EQ(capabilities.max_queue_length(), 7);
  EXPECT_EQ(
      std::vector<std::string>(capabilities.planners().begin(), capabilities.planners().end()),
      PlannerNames());
  EXPECT_THAT(capabilities.api_versions(), Contains("parplan.v1"));
  ASSERT_EQ(capabilities.verification_keys_size(), 1);
  EXPECT_EQ(capabilities.verification_keys(0).public_key().size(), 32u);
}

TEST(PlanService, APlanIsSignedKeptAndGivenAgainWithoutASearch) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::Plan plan, harness.plans().CreatePlan(SmallQuestion()));
  EXPECT_FALSE(plan.from_cache());
  v1::PlanPayload payload;
  ASSERT_TRUE(payload.ParseFromString(plan.signed_plan().payload()));
  EXPECT_EQ(payload.plan(), plan.name());
  EXPECT_EQ(payload.device_count(), 2);

  const int searches = planner.arrivals();
  ASSERT_OK_AND_ASSIGN(const v1::Plan again, harness.plans().CreatePlan(SmallQuestion()));
  EXPECT_TRUE(again.from_cache());
  EXPECT_EQ(again.name(), plan.name());
  EXPECT_EQ(again.signed_plan().SerializeAsString(), plan.signed_plan().SerializeAsString());
  EXPECT_EQ(planner.arrivals(), searches);

  v1::GetPlanRequest get;
  get.set_name(plan.name());
  ASSERT_OK_AND_ASSIGN(const v1::Plan stored, harness.plans().GetPlan(get));
  EXPECT_EQ(stored.signed_plan().payload(), plan.signed_plan().payload());
  v1::ListPlansRequest list;
  list.set_parent(kCluster);
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse listed, harness.plans().ListPlans(list));
  ASSERT_EQ(listed.plans_size(), 1);
  EXPECT_EQ(listed.plans(0).name(), plan.name());
}

TEST(PlanService, VerifyPlanKnowsAGoodPlanFromOneAlteredByABit) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::Plan plan, harness.plans().CreatePlan(SmallQuestion()));
  v1::VerifyPlanRequest request;
  *request.mutable_signed_plan() = plan.signed_plan();
  request.set_cluster("lab");
  ASSERT_OK_AND_ASSIGN(v1::VerifyPlanResponse response, harness.plans().VerifyPlan(request));
  EXPECT_EQ(response.verdict(), v1::VerifyPlanResponse::VALID) << response.detail();
  (*request.mutable_signed_plan()->mutable_payload())[10] ^= 1;
  ASSERT_OK_AND_ASSIGN(response, harness.plans().VerifyPlan(request));
  EXPECT_EQ(response.verdict(), v1::VerifyPlanResponse::BAD_SIGNATURE) << response.detail();
}

TEST(PlanService, ShapePlanRecommendsAndRemembers) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse shape,
                       harness.plans().ShapePlan(SmallShapeQuestion()));
  EXPECT_EQ(shape.options_size(), 2);
  EXPECT_TRUE(shape.has_recommended_option_index());
  EXPECT_FALSE(shape.from_cache());
  ASSERT_OK_AND_ASSIGN(const v1::ShapePlanResponse again,
                       harness.plans().ShapePlan(SmallShapeQuestion()));
  EXPECT_TRUE(again.from_cache());
}

TEST(PlanService, SearchPlanSendsProgressThenThePlan) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  int progress_count = 0;
  ASSERT_OK_AND_ASSIGN(
      const v1::Plan plan,
      harness.plans().SearchPlan(SmallQuestion(), [&](const v1::SearchProgress& progress) {
        EXPECT_GE(progress.gap_ratio(), 0.0);
        if (++progress_count == 3) planner.Open();
      }));
  EXPECT_GE(progress_count, 3);
  EXPECT_FALSE(plan.name().empty());
}

TEST(PlanService, ASearchThatFailsEndsItsStreamWithTheError) {
  RpcHarness harness;
  EXPECT_THAT(harness.plans().SearchPlan(SmallQuestion(), nullptr),
              IsRefused(StatusCode::kFailedPrecondition, Reason::kProfileMissing));
}

TEST(PlanService, RefusesAQuestionThatBreaksARule) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  v1::CreatePlanRequest request = SmallQuestion();
  request.mutable_spec()->set_global_batch_size(0);
  const absl::Status refused = harness.plans().CreatePlan(request).status();
  EXPECT_THAT(refused, IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  EXPECT_EQ(GetErrorDetail(refused)->metadata.count("field"), 1u);
  v1::ShapePlanRequest shape = SmallShapeQuestion();
  shape.clear_offers();
  EXPECT_THAT(harness.plans().ShapePlan(shape),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  v1::GetPlanRequest get;
  get.set_name("plans/1");
  EXPECT_THAT(harness.plans().GetPlan(get),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  v1::ListPlansRequest list;
  list.set_parent(kCluster);
  list.set_page_token("no token");
  EXPECT_THAT(harness.plans().ListPlans(list),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

TEST(PlanService, SaysWhatIsNotThere) {
  RpcHarness harness;
  EXPECT_THAT(harness.plans().CreatePlan(SmallQuestion()),
              IsRefused(StatusCode::kFailedPrecondition, Reason::kProfileMissing));
  EXPECT_THAT(harness.plans().ShapePlan(SmallShapeQuestion()),
              IsRefused(StatusCode::kFailedPrecondition, Reason::kProfileMissing));
  v1::GetPlanRequest get;
  get.set_name("clusters/lab/plans/none");
  EXPECT_THAT(harness.plans().GetPlan(get),
              IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound));
}

TEST(PlanService, ExportsPlansOrSaysWhyNot) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::Plan plan, harness.plans().CreatePlan(SmallQuestion()));
  v1::ExportPlanRequest request;
  request.set_name(plan.name());
  for (const char* const target : {"megatron", "galvatron", "nemo", ""}) {
    // A model without embedding and head, which these programs do not run; and no programs.
    request.set_target(target);
    EXPECT_THAT(harness.plans().ExportPlan(request),
                IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid))
        << target;
  }
  request.set_name("clusters/lab/plans/none");
  request.set_target("megatron");
  EXPECT_THAT(harness.plans().ExportPlan(request),
              IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound));
}

TEST(PlanService, SaysHowMuchMemoryWouldFit) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  v1::CreatePlanRequest request = SmallQuestion();
  request.mutable_spec()->mutable_topology()->mutable_node_groups(0)->set_device_memory_bytes(
      600 << 20);
  const absl::Status refused = harness.plans().CreatePlan(request).status();
  EXPECT_THAT(refused, IsRefused(StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan));
  EXPECT_EQ(GetErrorDetail(refused)->metadata.count("smallestDeviceMemoryBytes"), 1u);
}

TEST(PlanService, RefusesWhenTheQueueIsFull) {
  Limits limits = RpcHarness::TestLimits();
  limits.max_queue_length = 1;
  GatedPlanner planner;
  RpcHarness harness(limits, planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  const auto ask = [&harness](int batch) {
    v1::CreatePlanRequest request = SmallQuestion();
    request.mutable_spec()->set_global_batch_size(batch);
    return harness.plans().CreatePlan(request);
  };
  std::vector<std::thread> callers;
  callers.emplace_back([&] { EXPECT_OK(ask(8)); });
  planner.WaitForArrivals(1);
  // The second waits in the queue before the third asks, or the other way round:
  // exactly one of the two is refused.
  std::atomic<int> refused = 0;
  for (const int batch : {16, 32}) {
    callers.emplace_back([&, batch] {
      const absl::Status status = ask(batch).status();
      if (status.ok()) return;
      EXPECT_THAT(status, IsRefused(StatusCode::kResourceExhausted, Reason::kQueueFull));
      ++refused;
      planner.Open();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(refused, 1);
}

TEST(PlanService, EqualQuestionsInFlightShareOneSearch) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  std::vector<std::thread> callers;
  std::vector<std::string> names(4);
  for (std::string& name : names) {
    callers.emplace_back([&harness, &name] {
      const absl::StatusOr<v1::Plan> plan = harness.plans().CreatePlan(SmallQuestion());
      ASSERT_OK(plan);
      name = plan->name();
    });
  }
  planner.WaitForArrivals(1);
  planner.Open();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(planner.arrivals(), 1);
  for (const std::string& name : names) EXPECT_EQ(name, names[0]);
}

TEST(PlanService, ADeadlineEndsTheSearch) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  CallOptions options;
  options.timeout = absl::Milliseconds(200);
  EXPECT_THAT(harness.plans().CreatePlan(SmallQuestion(), options),
              StatusIs(StatusCode::kDeadlineExceeded));
  planner.WaitForStops(1);
}

TEST(PlanService, TheServersDeadlineIsForCallsWithoutOne) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function(), absl::Milliseconds(200));
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  const auto stub = v1::PlanService::NewStub(harness.channel());
  grpc::ClientContext context;  // Without a deadline.
  v1::Plan plan;
  EXPECT_THAT(FromGrpcStatus(stub->CreatePlan(&context, SmallQuestion(), &plan)),
              IsRefused(StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut));
}

TEST(PlanService, ACancelledCallStopsItsSearch) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  const auto stub = v1::PlanService::NewStub(harness.channel());
  grpc::ClientContext unary_context;
  std::thread caller([&] {
    v1::Plan plan;
    EXPECT_THAT(FromGrpcStatus(stub->CreatePlan(&unary_context, SmallQuestion(), &plan)),
                StatusIs(StatusCode::kCancelled));
  });
  planner.WaitForArrivals(1);
  unary_context.TryCancel();
  planner.WaitForStops(1);
  caller.join();

  grpc::ClientContext stream_context;
  const auto reader = stub->SearchPlan(&stream_context, SmallQuestion());
  v1::SearchPlanResponse response;
  ASSERT_TRUE(reader->Read(&response));
  stream_context.TryCancel();
  planner.WaitForStops(2);
  while (reader->Read(&response)) {
  }
  EXPECT_THAT(FromGrpcStatus(reader->Finish()), StatusIs(StatusCode::kCancelled));
}

TEST(PlanService, AWrongAnswerOfThePlannerIsNeverSigned) {
  RpcHarness harness(RpcHarness::TestLimits(),
                     [](const PlanningProblem& problem, absl::string_view planner,
                        const SearchControl& control) -> absl::StatusOr<PlanningResult> {
                       absl::StatusOr<PlanningResult> result = FindPlan(problem, planner, control);
                       std::get<PlanFound>(*result).prediction.step =
                           Seconds::Of(std::get<PlanFound>(*result).prediction.step.value() / 2);
                       return result;
                     });
  ASSERT_OK(harness.UploadSmallProfile());
  EXPECT_THAT(harness.plans().CreatePlan(SmallQuestion()),
              IsRefused(StatusCode::kInternal, Reason::kCheckFailed));
  v1::ListPlansRequest list;
  list.set_parent(kCluster);
  ASSERT_OK_AND_ASSIGN(const v1::ListPlansResponse listed, harness.plans().ListPlans(list));
  EXPECT_EQ(listed.plans_size(), 0);
}

TEST(PlanService, AStoreThatFailsIsUnavailable) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  harness.store().SetBroken(true);
  const auto unavailable = IsRefused(StatusCode::kUnavailable, Reason::kStoreUnavailable);
  EXPECT_THAT(harness.plans().CreatePlan(SmallQuestion()), unavailable);
  EXPECT_THAT(harness.plans().ShapePlan(SmallShapeQuestion()), unavailable);
  v1::ListPlansRequest list;
  list.set_parent(kCluster);
  EXPECT_THAT(harness.plans().ListPlans(list), unavailable);
  harness.store().SetBroken(false);
  EXPECT_OK(harness.plans().CreatePlan(SmallQuestion()));
}

TEST(PlanService, ADrainingServerRefusesSearchesAndGivesWhatItHas) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK(harness.plans().CreatePlan(SmallQuestion()));
  harness.core().StopTaking();
  EXPECT_OK(harness.plans().CreatePlan(SmallQuestion()));
  v1::CreatePlanRequest other = SmallQuestion();
  other.mutable_spec()->set_global_batch_size(16);
  EXPECT_THAT(harness.plans().CreatePlan(other),
              IsRefused(StatusCode::kUnavailable, Reason::kDraining));
}

}  // namespace
}  // namespace parplan
