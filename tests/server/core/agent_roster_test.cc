#include "server/core/agent_roster.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/fakes.h"

namespace parplan {
namespace {

class AgentRosterTest : public testing::Test {
 protected:
  FakeClock clock;
  RecordingObserver observer;
  AgentRoster roster{observer};
};

TEST_F(AgentRosterTest, CountsEachClusterByItself) {
  roster.Connected(1, "lab", clock.Now());
  roster.Connected(2, "lab", clock.Now());
  roster.Connected(3, "farm", clock.Now());
  EXPECT_EQ(observer.agents_of("lab"), 2);
  EXPECT_EQ(observer.agents_of("farm"), 1);
  roster.Gone(1);
  roster.Gone(1);
  roster.Gone(77);
  EXPECT_EQ(observer.agents_of("lab"), 1);
  roster.Gone(3);
  EXPECT_EQ(observer.agents_of("farm"), 0);
  roster.Connected(4, "farm", clock.Now());
  EXPECT_EQ(observer.agents_of("farm"), 1);
}

TEST_F(AgentRosterTest, SaysWhenAClusterWasHeard) {
  roster.Connected(1, "lab", clock.Now());
  EXPECT_EQ(observer.heard("lab"), clock.Now());
  clock.Advance(absl::Seconds(15));
  EXPECT_LT(observer.heard("lab"), clock.Now());
  roster.Heard(1, clock.Now());
  EXPECT_EQ(observer.heard("lab"), clock.Now());
  roster.Gone(1);
  clock.Advance(absl::Seconds(15));
  roster.Heard(1, clock.Now());
  EXPECT_LT(observer.heard("lab"), clock.Now());
}

}  // namespace
}  // namespace parplan
