#include "server/core/call_guard.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;

std::shared_ptr<CallContext> CallBy(const std::string& name, const std::vector<HeldRole>& roles) {
  const Identity identity =
      Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
  return CallContext::Create("call", absl::InfiniteDuration(), Clock::Real(),
                             std::make_shared<const Caller>(identity, roles));
}

HeldRole RoleInC(Role role) {
  HeldRole held;
  held.role = role;
  held.clusters.ids = {"c"};
  return held;
}

class CallGuardTest : public testing::Test {
 protected:
  CallGuardTest() {
    PlanRecord plan;
    plan.name = "clusters/c/plans/p";
    plan.cluster = "c";
    plan.owner = "cn:me";
    EXPECT_OK(store.PutPlan(plan));
    request.set_name(plan.name);
  }

  MemoryStore store;
  CallGuard guard{store, AuditSink::Null()};
  v1::GetPlanRequest request;
};

TEST_F(CallGuardTest, OwnersAreReadFromTheStoreOnlyWhereTheyDecide) {
  const auto planner = CallBy("me", {RoleInC(Role::kPlanner)});
  const auto reader = CallBy("me", {RoleInC(Role::kReader)});
  EXPECT_OK(guard.Check(*planner, "GetPlan", request));
  store.SetBroken(true);
  // A store that is away is no refusal.
  EXPECT_THAT(guard.Check(*planner, "GetPlan", request), StatusIs(StatusCode::kUnavailable));
  EXPECT_OK(guard.Check(*reader, "GetPlan", request));
  EXPECT_OK(guard.Check(*CallContext::OfItself(), "GetPlan", request));
  v1::CreatePlanRequest question;
  question.set_parent("clusters/c");
  EXPECT_OK(guard.Check(*planner, "CreatePlan", question));
}

TEST_F(CallGuardTest, OthersAndPlansThatAreNotThereAreRefusedAlike) {
  const auto stranger = CallBy("you", {RoleInC(Role::kPlanner)});
  EXPECT_THAT(guard.Check(*stranger, "GetPlan", request), StatusIs(StatusCode::kPermissionDenied));
  request.set_name("clusters/c/plans/none");
  EXPECT_THAT(guard.Check(*stranger, "GetPlan", request), StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(guard.Check(*CallBy("me", {RoleInC(Role::kPlanner)}), "GetPlan", request),
              StatusIs(StatusCode::kPermissionDenied));
}

TEST_F(CallGuardTest, NamesThatBreakARuleAreNamedAsTheCoreNamesThem) {
  const auto planner = CallBy("me", {RoleInC(Role::kPlanner)});
  request.set_name("plans/p");
  EXPECT_THAT(guard.Check(*planner, "GetPlan", request), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
