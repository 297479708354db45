#include "server/access/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kMe[] = "cn:me";

Caller Me(const std::vector<HeldRole>& roles) {
  return Caller(Identity::OfCertificate({.common_names = {"me"}}, {NameSource::kCommonName}),
                roles);
}

// A role in cluster `west`, with node `n` or job `j` as its own.
HeldRole InWest(Role role) {
  HeldRole held;
  held.role = role;
  held.clusters.ids = {"west"};
  if (role == Role::kAgent) held.nodes.ids = {"n"};
  if (role == Role::kExecutor) held.jobs.ids = {"j"};
  return held;
}

Resource OwnIn(const std::string& cluster) {
  return {.name = "own", .cluster = cluster, .node = "n", .owner = kMe, .job_id = "j"};
}

Resource OthersIn(const std::string& cluster) {
  return {.name = "other", .cluster = cluster, .node = "o", .owner = "cn:you", .job_id = "k"};
}

// Every cell of the table, for a resource that is one's own, another's, and of another cluster.
TEST(Caller, MayDoWhatTheTableSays) {
  for (const AccessRow& row : AccessTable()) {
    for (int i = 0; i < kRoleCount; ++i) {
      const Role role = static_cast<Role>(i);
      const Caller caller = Me({InWest(role)});
      const Access access = row.is_public ? Access::kAny : row.of(role);
      const auto may = [&](const Resource& resource) {
        const bool is_allowed = caller.Check(row.method, resource).ok();
        EXPECT_EQ(is_allowed && !row.is_public, !caller.AllowingRole(row.method, resource).empty());
        return is_allowed;
      };
      EXPECT_EQ(may(OwnIn("west")), access != Access::kNone) << row.method << " " << RoleName(role);
      EXPECT_EQ(may(OthersIn("west")), access == Access::kAny) << row.method;
      EXPECT_EQ(may(OwnIn("east")), row.is_public) << row.method;
      EXPECT_EQ(may(OthersIn("east")), row.is_public) << row.method;
      EXPECT_EQ(may({.name = "nothing stored"}), access != Access::kNone) << row.method;
      EXPECT_EQ(caller.AccessTo(row.method, "west"), access);
      EXPECT_EQ(caller.AccessTo(row.method, ""), access);
      EXPECT_EQ(caller.AccessTo(row.method, "east"), row.is_public ? Access::kAny : Access::kNone);
    }
    const Caller nobody = Me({});
    EXPECT_EQ(nobody.Check(row.method, OwnIn("west")).ok(), row.is_public) << row.method;
    EXPECT_EQ(nobody.Check(row.method, {}).ok(), row.is_public) << row.method;
    EXPECT_OK(Caller::Itself()->Check(row.method, OthersIn("west")));
  }
  EXPECT_FALSE(Me({InWest(Role::kOperator)}).Check("NewMethod", OwnIn("west")).ok());
}

// Each of the facts that make something one's own decides by itself.
TEST(Caller, OwnsByTheFactOfItsRole) {
  Resource resource = OwnIn("west");
  resource.node = "o";
  EXPECT_FALSE(Me({InWest(Role::kAgent)}).Check("UploadProfile", resource).ok());
  resource.node.clear();
  EXPECT_FALSE(Me({InWest(Role::kAgent)}).Check("UploadProfile", resource).ok());
  resource = OthersIn("west");
  resource.owner = kMe;
  EXPECT_OK(Me({InWest(Role::kPlanner)}).Check("GetPlan", resource));
  EXPECT_FALSE(Me({InWest(Role::kExecutor)}).Check("GetPlan", resource).ok());
  resource = OthersIn("west");
  resource.job_id = "j";
  EXPECT_FALSE(Me({InWest(Role::kPlanner)}).Check("GetPlan", resource).ok());
  EXPECT_OK(Me({InWest(Role::kExecutor)}).Check("GetPlan", resource));
  // A plan without owner and job is only that of whoever executes all of them.
  resource.owner.clear();
  resource.job_id.clear();
  EXPECT_FALSE(
      Me({InWest(Role::kPlanner), InWest(Role::kExecutor)}).Check("GetPlan", resource).ok());
  HeldRole every_job = InWest(Role::kExecutor);
  every_job.jobs = {.has_all = true};
  EXPECT_OK(Me({every_job}).Check("GetPlan", resource));
}

TEST(Caller, RolesInDifferentClustersDoNotMix) {
  HeldRole operator_east = InWest(Role::kOperator);
  operator_east.clusters.ids = {"east"};
  const Caller caller = Me({InWest(Role::kReader), operator_east});
  EXPECT_OK(caller.Check("GetProfile", OthersIn("west")));
  EXPECT_FALSE(caller.Check("DeleteProfile", OthersIn("west")).ok());
  EXPECT_OK(caller.Check("DeleteProfile", OthersIn("east")));
  EXPECT_TRUE(caller.Holds(Role::kOperator, "east"));
  EXPECT_FALSE(caller.Holds(Role::kOperator, "west"));
  EXPECT_EQ(caller.RolesIn("west"), "reader");
  EXPECT_EQ(caller.RolesIn(""), "reader operator");
}

TEST(Caller, ListsItsOwnPlansUnlessItMaySeeAll) {
  EXPECT_FALSE(Caller::Itself()->PlansFor("ListPlans", "west").has_value());
  EXPECT_FALSE(Me({InWest(Role::kPlanner), InWest(Role::kReader)})
                   .PlansFor("ListPlans", "west")
                   .has_value());
  HeldRole other_job = InWest(Role::kExecutor);
  other_job.jobs.ids = {"k"};
  HeldRole elsewhere = InWest(Role::kExecutor);
  elsewhere.clusters.ids = {"east"};
  elsewhere.jobs.ids = {"x"};
  const auto plans = Me({InWest(Role::kPlanner), InWest(Role::kExecutor), other_job, elsewhere,
                         InWest(Role::kAgent)})
                         .PlansFor("ListPlans", "west");
  ASSERT_TRUE(plans.has_value());
  EXPECT_EQ(plans->owner, kMe);
  EXPECT_THAT(plans->job_ids, testing::ElementsAre("j", "k"));
  HeldRole every_job = InWest(Role::kExecutor);
  every_job.jobs = {.has_all = true};
  EXPECT_FALSE(Me({every_job}).PlansFor("ListPlans", "west").has_value());
  const auto none = Me({}).PlansFor("ListPlans", "west");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->owner, "");
  EXPECT_THAT(none->job_ids, testing::IsEmpty());
}

TEST(Caller, ExecutesOnlyItsJobs) {
  const Caller caller = Me({InWest(Role::kExecutor)});
  EXPECT_TRUE(caller.ExecutesJob("west", "j"));
  EXPECT_FALSE(caller.ExecutesJob("west", "k"));
  EXPECT_FALSE(caller.ExecutesJob("east", "j"));
  EXPECT_FALSE(caller.ExecutesJob("west", ""));
  EXPECT_FALSE(Me({InWest(Role::kPlanner)}).ExecutesJob("west", "j"));
}

TEST(Caller, ARefusalNamesRolesAndResourceAndNothingOfOthers) {
  const absl::Status status = Me({InWest(Role::kAgent)}).Check("GetPlan", OthersIn("west"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("planner (own), executor (own), reader, operator"),
                    HasSubstr("`other`"), HasSubstr("cn:me"), HasSubstr("agent"),
                    Not(HasSubstr("cn:you")), Not(HasSubstr("`k`"))));
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kRoleRequired);
  EXPECT_EQ(detail->metadata.at("method"), "GetPlan");
  EXPECT_EQ(detail->metadata.at("resource"), "other");
  EXPECT_EQ(detail->metadata.at("heldRoles"), "agent");
}

}  // namespace
}  // namespace parplan
