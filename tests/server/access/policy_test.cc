#include "server/access/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Identity Named(const std::string& name) {
  return Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
}

Grant ReaderOf(const std::string& cluster) {
  return {.identities = {"cn:a"}, .role = "reader", .clusters = {cluster}};
}

TEST(Policy, GrantsAddUpAndNothingElseIsAllowed) {
  const std::vector<Grant> grants = {
      {.identities = {"cn:a", "cn:b"}, .role = "planner", .clusters = {"west", "east"}},
      {.identities = {"cn:a"}, .role = "reader", .clusters = {"*"}},
      {.identities = {"cn:node-{node}"}, .role = "agent", .clusters = {"west"}},
      {.identities = {"cn:job-{job}"}, .role = "executor", .clusters = {"west"}},
      {.identities = {"cn:all"}, .role = "executor", .clusters = {"west"}, .jobs = {"x", "*"}},
  };
  ASSERT_OK_AND_ASSIGN(const Policy policy, Policy::Create(grants, "grants"));
  const IdSet both = {.ids = {"west", "east"}};
  const IdSet west = {.ids = {"west"}};
  const IdSet all = {.has_all = true};
  EXPECT_THAT(policy.CallerOf(Named("a"))->roles(),
              UnorderedElementsAre(HeldRole{Role::kPlanner, both, {}, {}},
                                   HeldRole{Role::kReader, all, {}, {}}));
  EXPECT_THAT(policy.CallerOf(Named("b"))->roles(),
              UnorderedElementsAre(HeldRole{Role::kPlanner, both, {}, {}}));
  EXPECT_THAT(policy.CallerOf(Named("node-n1"))->roles(),
              UnorderedElementsAre(HeldRole{Role::kAgent, west, {.ids = {"n1"}}, {}}));
  EXPECT_THAT(policy.CallerOf(Named("job-7"))->roles(),
              UnorderedElementsAre(HeldRole{Role::kExecutor, west, {}, {.ids = {"7"}}}));
  EXPECT_THAT(policy.CallerOf(Named("all"))->roles(),
              UnorderedElementsAre(HeldRole{Role::kExecutor, west, {}, all}));
  for (const Identity& other : {Named("c"), Identity::Anonymous(), Identity::Unnamed()}) {
    EXPECT_TRUE(policy.CallerOf(other)->is_restricted());
    EXPECT_THAT(policy.CallerOf(other)->roles(), IsEmpty());
  }
}

TEST(Policy, AllowAllRestrictsNobodyAndOwnsNothing) {
  const auto caller = Policy::AllowAll().CallerOf(Named("a"));
  EXPECT_FALSE(caller->is_restricted());
  EXPECT_EQ(caller->identity().text(), "cn:a");
  EXPECT_EQ(caller->owner(), "");
}

TEST(Policy, MistakesAreNamedWithTheirField) {
  struct Case {
    Grant grant;
    std::string field;
  };
  const std::vector<std::string> a = {"cn:a"};
  const std::vector<std::string> any = {"*"};
  const std::vector<Case> cases = {
      {{.role = "reader", .clusters = any}, "grants[1].identities"},
      {{.identities = {"a"}, .role = "reader", .clusters = any}, "grants[1].identities"},
      {{.identities = a, .clusters = any}, "grants[1].role"},
      {{.identities = a, .role = "Reader", .clusters = any}, "grants[1].role"},
      {{.identities = a, .role = "reader"}, "grants[1].clusters"},
      {{.identities = a, .role = "reader", .clusters = {"West"}}, "grants[1].clusters"},
      {{.identities = a, .role = "reader", .clusters = {"west*"}}, "grants[1].clusters"},
      {{.identities = {"cn:{cluster}"}, .role = "reader", .clusters = any}, "grants[1].clusters"},
      {{.identities = {"cn:{cluster}", "cn:a"}, .role = "reader"}, "grants[1].clusters"},
      {{.identities = a, .role = "agent", .clusters = any}, "grants[1].nodes"},
      {{.identities = {"cn:{node}"}, .role = "agent", .clusters = any, .nodes = any},
       "grants[1].nodes"},
      {{.identities = a, .role = "agent", .clusters = any, .nodes = {"a/b"}}, "grants[1].nodes"},
      {{.identities = a, .role = "reader", .clusters = any, .nodes = any}, "grants[1].nodes"},
      {{.identities = {"cn:{node}"}, .role = "operator", .clusters = any}, "grants[1].nodes"},
      {{.identities = a, .role = "executor", .clusters = any}, "grants[1].jobs"},
      {{.identities = a, .role = "executor", .clusters = any, .jobs = {""}}, "grants[1].jobs"},
      {{.identities = a, .role = "planner", .clusters = any, .jobs = {"x"}}, "grants[1].jobs"},
      {{.identities = {"cn:{job}"}, .role = "planner", .clusters = any}, "grants[1].jobs"},
  };
  for (const Case& bad : cases) {
    const absl::Status status =
        Policy::Create(std::vector<Grant>{ReaderOf("west"), bad.grant}, "grants").status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.field));
  }
}

TEST(Policy, HasALimit) {
  std::vector<Grant> grants(Policy::kMaxPatternCount, ReaderOf("west"));
  EXPECT_OK(Policy::Create(grants, "grants").status());
  grants.push_back(ReaderOf("west"));
  EXPECT_THAT(Policy::Create(grants, "grants"), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
