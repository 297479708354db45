#include "executor/device/comm/job_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "executor/device/comm/frame.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(JobFacts, SayWhoHasNotComeAndWhoWasRefused) {
  JobFacts facts(3);
  EXPECT_EQ(facts.Missing(), "ranks 0, 1, 2 have not come");
  facts.Join(0);
  facts.Join(2);
  EXPECT_EQ(facts.Missing(), "rank 1 has not come");
  facts.Refuse(1, "wrong token");
  EXPECT_THAT(facts.Missing(), HasSubstr("called itself rank 1 was refused: wrong token"));
  facts.Join(1);
  EXPECT_EQ(facts.Missing(), "");
  EXPECT_THAT(facts.joined(), ElementsAre(0, 1, 2));
}

TEST(JobFacts, AreNotContradicted) {
  JobFacts facts(2);
  EXPECT_EQ(facts.Find("model"), nullptr);
  EXPECT_OK(facts.Publish(0, "model", "gpt"));
  EXPECT_OK(facts.Publish(1, "model", "gpt"));
  EXPECT_THAT(
      facts.Publish(1, "model", "bert"),
      StatusIs(absl::StatusCode::kInvalidArgument, "it contradicts the published fact model"));
  ASSERT_NE(facts.Find("model"), nullptr);
  EXPECT_EQ(*facts.Find("model"), "gpt");
}

TEST(JobFacts, OfARankAreItsOwn) {
  JobFacts facts(2);
  EXPECT_THAT(facts.Publish(0, RankFact(1), "there h1:1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("which is rank 1's")));
  EXPECT_THAT(facts.Hosts(), ElementsAre("", ""));
  EXPECT_OK(facts.Publish(1, RankFact(1), "there h1:1"));
  EXPECT_THAT(facts.Hosts(), ElementsAre("", "h1"));
}

// Rank 0 is on the host of rank 1.
TEST(JobFacts, KnowWhenARankReachesNoOtherHost) {
  JobFacts facts(4);
  const char* const hosts[] = {"a", "a", "b", "c"};
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_OK(facts.Publish(rank, RankFact(rank), std::string("x ") + hosts[rank] + ":7"));
  }
  EXPECT_TRUE(facts.AreAllOnOtherHosts({2, 3}, 0));
  EXPECT_FALSE(facts.AreAllOnOtherHosts({2}, 0));
  EXPECT_FALSE(facts.AreAllOnOtherHosts({1, 2}, 0));
  EXPECT_FALSE(facts.AreAllOnOtherHosts({1, 2, 3}, 0));
}

// A single rank elsewhere may itself be the one that is cut off.
TEST(JobFacts, OneRankOnAnotherHostDoesNotShowWhoIsCutOff) {
  JobFacts facts(2);
  ASSERT_OK(facts.Publish(0, RankFact(0), "x a:7"));
  ASSERT_OK(facts.Publish(1, RankFact(1), "x b:7"));
  EXPECT_FALSE(facts.AreAllOnOtherHosts({1}, 0));
}

}  // namespace
}  // namespace parplan
