#include "proto/wire/resource_name.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

template <typename Name>
void ExpectRoundTrip(const std::string& text) {
  const absl::StatusOr<Name> name = Name::Parse(text);
  ASSERT_OK(name);
  EXPECT_EQ(name->ToString(), text);
}

TEST(ResourceName, ParseAndToStringAreInverse) {
  ExpectRoundTrip<ClusterName>("clusters/lab-1");
  ExpectRoundTrip<NodeName>("clusters/lab-1/nodes/GPU_07.rack.example");
  ExpectRoundTrip<ProfileName>("clusters/0/nodes/n/profiles/" + std::string(63, 'a'));
  ExpectRoundTrip<CalibrationName>("clusters/lab/calibrations/3f");
  ExpectRoundTrip<PlanName>("clusters/lab/plans/3f");
  ExpectRoundTrip<ExecutionName>("clusters/lab/plans/3f/executions/e-1");
}

TEST(ResourceName, ParentsAreBeginnings) {
  EXPECT_EQ((ExecutionName{"c", "p", "e"}.parent().ToString()), "clusters/c/plans/p");
  EXPECT_EQ((CalibrationName{"c", "k"}.parent().ToString()), "clusters/c");
  EXPECT_EQ((PlanName{"c", "p"}.parent().ToString()), "clusters/c");
  EXPECT_EQ((ProfileName{"c", "n", "p"}.parent().ToString()), "clusters/c/nodes/n");
}

TEST(ResourceName, RefusesOtherForms) {
  for (const char* bad :
       {"", "clusters", "clusters/", "clusters/Lab", "clusters/-a", "clusters/a/", "/clusters/a",
        "cluster/a", "clusters/a_b", "clusters/a/plans/b/x", "clusters/a\n"}) {
    EXPECT_EQ(Rejection(ClusterName::Parse(bad).status()), "SPEC_INVALID parent") << bad;
  }
  EXPECT_FALSE(ClusterName::Parse("clusters/" + std::string(64, 'a')).ok());
  EXPECT_FALSE(PlanName::Parse("clusters/a/plans/B").ok());
  EXPECT_FALSE(NodeName::Parse("clusters/a/nodes/.b").ok());
  EXPECT_FALSE(NodeName::Parse("clusters/a/nodes/" + std::string(254, 'b')).ok());
}

TEST(ResourceName, SaysTheFormExpected) {
  EXPECT_THAT(ExecutionName::Parse("x", "execution"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("execution: must have the form "
                                          "`clusters/{cluster}/plans/{plan}/executions/"
                                          "{execution}`")));
}

TEST(ResourceName, SaysTheRuleOfEveryKindOfIdInTheForm) {
  EXPECT_EQ(
      ClusterName::Parse("clusters/a_b").status().message(),
      "parent: must have the form `clusters/{cluster}`, where {cluster} is 1 to 63 lower-case "
      "letters, digits and `-`, starting with a letter or digit");
  EXPECT_EQ(NodeName::Parse("clusters/a/nodes/.b").status().message(),
            "parent: must have the form `clusters/{cluster}/nodes/{node}`, where {cluster} is 1 to "
            "63 lower-case letters, digits and `-`, starting with a letter or digit, and {node} is "
            "1 to 253 letters, digits, `-`, `.` and `_`, starting with a letter or digit");
  EXPECT_EQ(ProfileName::Parse("x").status().message(),
            "name: must have the form `clusters/{cluster}/nodes/{node}/profiles/{profile}`, where "
            "{cluster} and {profile} are each 1 to 63 lower-case letters, digits and `-`, starting "
            "with a letter or digit, and {node} is 1 to 253 letters, digits, `-`, `.` and `_`, "
            "starting with a letter or digit");
}

}  // namespace
}  // namespace parplan
