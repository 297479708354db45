#include "profiler-agent/lease/lease_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = LeaseAction::Kind;
using Actions = LeaseMachine::Actions;

constexpr absl::Duration kNow = absl::Hours(3);

LeaseMachineOptions Options() {
  LeaseMachineOptions options;
  options.hello.set_node("clusters/lab/nodes/a");
  options.hello.set_instance_id("one");
  return options;
}

v1::ConnectAgentResponse Welcome(int heartbeat_seconds = 15) {
  v1::ConnectAgentResponse message;
  message.mutable_welcome()->mutable_heartbeat_time()->set_seconds(heartbeat_seconds);
  return message;
}

v1::Lease Lease(const std::string& id, const std::string& request, int seconds, int host = 0) {
  v1::Lease lease;
  lease.set_lease_id(id);
  lease.set_request_id(request);
  lease.add_nodes()->set_node_id("a");
  lease.add_nodes()->set_node_id("b");
  lease.set_host_index(host);
  lease.mutable_remaining_time()->set_seconds(seconds);
  return lease;
}

v1::ConnectAgentResponse Granted(const std::string& id, const std::string& request, int seconds) {
  v1::ConnectAgentResponse message;
  *message.mutable_lease_granted() = Lease(id, request, seconds);
  return message;
}

v1::ConnectAgentResponse Opened(const std::string& id, int seconds, int host) {
  v1::ConnectAgentResponse message;
  *message.mutable_lease_opened() = Lease(id, "", seconds, host);
  return message;
}

v1::ConnectAgentResponse Renewed(const std::string& id, int seconds) {
  v1::ConnectAgentResponse message;
  *message.mutable_lease_renewed() = Lease(id, "", seconds);
  return message;
}

v1::ConnectAgentResponse Ended(const std::string& id) {
  v1::ConnectAgentResponse message;
  message.mutable_lease_ended()->set_lease_id(id);
  message.mutable_lease_ended()->set_cause(v1::LEASE_END_CAUSE_RETURNED);
  return message;
}

v1::LeaseRequest Request(const std::string& id) {
  v1::LeaseRequest request;
  request.set_request_id(id);
  return request;
}

std::vector<Kind> Kinds(const Actions& actions) {
  std::vector<Kind> kinds;
  for (const LeaseAction& action : actions) kinds.push_back(action.kind);
  return kinds;
}

// Connected at kNow.
class LeaseMachineTest : public testing::Test {
 protected:
  LeaseMachineTest() {
    EXPECT_THAT(Kinds(machine.Start(kNow)), ElementsAre(Kind::kConnect));
    EXPECT_THAT(Kinds(machine.Received(Welcome(), kNow)),
                ElementsAre(Kind::kWelcomed, Kind::kSend));
    EXPECT_TRUE(machine.is_connected());
  }

  void GetGranted(const std::string& lease, int seconds) {
    EXPECT_THAT(Kinds(machine.Request(Request("r"), kNow)), ElementsAre(Kind::kSend));
    EXPECT_THAT(Kinds(machine.Received(Granted(lease, "r", seconds), kNow)),
                ElementsAre(Kind::kGranted));
  }

  // When it looks next, from `now` on; infinite where it does not within an hour.
  absl::Duration NextLook(absl::Duration now) {
    const absl::Duration end = now + absl::Hours(1);
    for (; now < end; now = machine.NextDeadline()) {
      for (const LeaseAction& action : machine.Tick(now)) {
        if (action.kind == Kind::kLook) return now;
      }
    }
    return absl::InfiniteDuration();
  }

  LeaseMachine machine{Options(), [] { return 1.0; }};
};

TEST_F(LeaseMachineTest, HeartbeatsComeWhenNothingElseIsSaid) {
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(15));
  EXPECT_THAT(machine.Tick(kNow + absl::Seconds(14)), IsEmpty());
  machine.Request(Request("r"), kNow + absl::Seconds(14));
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(29));
  const Actions beat = machine.Tick(kNow + absl::Seconds(29));
  ASSERT_THAT(Kinds(beat), ElementsAre(Kind::kSend));
  EXPECT_TRUE(beat[0].message.has_heartbeat());
  const Actions busy = machine.SetBusy(true, kNow + absl::Seconds(30));
  ASSERT_THAT(Kinds(busy), ElementsAre(Kind::kSend));
  EXPECT_TRUE(busy[0].message.heartbeat().is_busy());
  EXPECT_THAT(machine.SetBusy(true, kNow + absl::Seconds(30)), IsEmpty());
}

TEST_F(LeaseMachineTest, AGrantedLeaseIsOpenedRenewedAndGivenBack) {
  GetGranted("l", 60);
  const Actions open = machine.Open("l", 4711, kNow);
  ASSERT_THAT(Kinds(open), ElementsAre(Kind::kSend));
  EXPECT_EQ(open[0].message.open_lease().rendezvous_port(), 4711);
  // The host hears of its own lease too, and knows it.
  EXPECT_THAT(machine.Received(Opened("l", 60, 0), kNow), IsEmpty());
  machine.Tick(kNow + absl::Seconds(15));
  machine.Tick(kNow + absl::Seconds(29));
  const Actions renewal = machine.Tick(kNow + absl::Seconds(30));
  ASSERT_FALSE(renewal.empty());
  EXPECT_EQ(renewal[0].message.renew_lease().duration().seconds(), 60);
  EXPECT_THAT(machine.Received(Renewed("l", 60), kNow + absl::Seconds(31)), IsEmpty());
  for (int second = 32; second < 90; ++second) {
    for (const LeaseAction& action : machine.Tick(kNow + absl::Seconds(second))) {
      EXPECT_EQ(action.kind, Kind::kSend);
    }
  }
  const Actions back = machine.Return("l", "", kNow + absl::Seconds(80));
  ASSERT_THAT(Kinds(back), ElementsAre(Kind::kSend));
  EXPECT_THAT(machine.Received(Ended("l"), kNow + absl::Seconds(81)), IsEmpty());
  EXPECT_THAT(machine.Return("l", "", kNow), IsEmpty());
}

TEST_F(LeaseMachineTest, ALeaseThatNobodyRenewsEndsByTheOwnClock) {
  GetGranted("l", 60);
  Actions last;
  for (int second = 1; second <= 60; ++second) last = machine.Tick(kNow + absl::Seconds(second));
  ASSERT_THAT(Kinds(last), testing::Contains(Kind::kEnded));
  EXPECT_EQ(last[0].end.cause(), v1::LEASE_END_CAUSE_EXPIRED);
  // A later message of the server does not end the lease again.
  EXPECT_THAT(machine.Received(Ended("l"), kNow + absl::Seconds(61)), IsEmpty());
}

TEST_F(LeaseMachineTest, LeasesOfOthersBeginWhenTheyAreOpened) {
  EXPECT_THAT(Kinds(machine.Received(Opened("l", 60, 1), kNow)), ElementsAre(Kind::kOpened));
  // A member neither opens nor renews, but may give up.
  EXPECT_THAT(machine.Open("l", 1, kNow), IsEmpty());
  for (int second = 1; second < 60; ++second) {
    for (const LeaseAction& action : machine.Tick(kNow + absl::Seconds(second))) {
      EXPECT_TRUE(action.message.has_heartbeat());
    }
  }
  const Actions up = machine.Return("l", "no memory", kNow + absl::Seconds(59));
  ASSERT_THAT(Kinds(up), ElementsAre(Kind::kSend));
  EXPECT_EQ(up[0].message.return_lease().failure_reason(), "no memory");
}

TEST_F(LeaseMachineTest, TheEndOfTheStreamEndsLeasesAndAnswersRequests) {
  GetGranted("l", 60);
  machine.Received(Opened("m", 60, 1), kNow);
  machine.Request(Request("s"), kNow);
  const Actions end = machine.StreamEnded(absl::UnavailableError("gone"), kNow);
  ASSERT_THAT(Kinds(end), ElementsAre(Kind::kEnded, Kind::kEnded, Kind::kRefused));
  EXPECT_EQ(end[0].end.cause(), v1::LEASE_END_CAUSE_AGENT_LOST);
  EXPECT_THAT(end[0].end.detail(), testing::HasSubstr("gone"));
  EXPECT_EQ(end[2].refusal.request_id(), "s");
  EXPECT_THAT(Kinds(machine.Request(Request("t"), kNow)), ElementsAre(Kind::kRefused));
  EXPECT_THAT(machine.Return("l", "", kNow), IsEmpty());
}

TEST_F(LeaseMachineTest, AttemptsToConnectComeLaterAndLater) {
  absl::Duration now = kNow;
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    machine.StreamEnded(absl::UnavailableError("gone"), now);
    EXPECT_FALSE(machine.is_connected());
    EXPECT_EQ(machine.NextDeadline(), now + absl::Seconds(pause));
    now += absl::Seconds(pause);
    EXPECT_THAT(Kinds(machine.Tick(now)), ElementsAre(Kind::kConnect));
  }
  // A welcome forgets them.
  machine.Received(Welcome(), now);
  machine.StreamEnded(absl::UnavailableError("gone"), now);
  EXPECT_EQ(machine.NextDeadline(), now + absl::Seconds(1));
}

TEST_F(LeaseMachineTest, AServerThatRefusesTheAgentIsNotPestered) {
  machine.StreamEnded(absl::PermissionDeniedError("not of this cluster"), kNow);
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Minutes(1));
}

// The server ends a stream with the token that it began with; a renewed one is in the file.
TEST_F(LeaseMachineTest, WhoseCredentialExpiredConnectsAnewAtOnce) {
  machine.StreamEnded(absl::UnauthenticatedError("the token expired"), kNow);
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(1));
  // It did not help.
  machine.Tick(kNow + absl::Seconds(1));
  machine.StreamEnded(absl::UnauthenticatedError("the token expired"), kNow + absl::Seconds(1));
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(1) + absl::Minutes(1));
}

// The server takes the agent for present that ran here before its host was started again.
TEST_F(LeaseMachineTest, WhoFollowsItsFormerSelfTriesAgainSoon) {
  const absl::Status refused = absl::AlreadyExistsError("another agent");
  machine.StreamEnded(refused, kNow);
  absl::Duration now = kNow;
  while (now < kNow + absl::Minutes(2)) {
    ASSERT_EQ(machine.NextDeadline(), now + absl::Seconds(5));
    now += absl::Seconds(5);
    ASSERT_THAT(Kinds(machine.Tick(now)), ElementsAre(Kind::kConnect));
    machine.StreamEnded(refused, now);
  }
  // By now the former one would be gone: another agent runs on this node.
  EXPECT_EQ(machine.NextDeadline(), now + absl::Minutes(1));
  // A welcome ends the conflict, and the next one is judged anew.
  now += absl::Minutes(1);
  machine.Tick(now);
  machine.Received(Welcome(), now);
  machine.StreamEnded(refused, now);
  EXPECT_EQ(machine.NextDeadline(), now + absl::Seconds(5));
}

TEST_F(LeaseMachineTest, AServerThatSaysNothingIsLeft) {
  machine.StreamEnded(absl::UnavailableError("gone"), kNow);
  EXPECT_THAT(Kinds(machine.Tick(kNow + absl::Seconds(1))), ElementsAre(Kind::kConnect));
  const absl::Duration later = kNow + absl::Seconds(31);
  EXPECT_EQ(machine.NextDeadline(), later);
  EXPECT_THAT(Kinds(machine.Tick(later)), ElementsAre(Kind::kDisconnect));
  // And again, where that came before there was a stream.
  EXPECT_EQ(machine.NextDeadline(), later + absl::Seconds(30));
  machine.StreamEnded(absl::CancelledError("left"), later);
  EXPECT_EQ(machine.NextDeadline(), later + absl::Seconds(2));
}

TEST_F(LeaseMachineTest, TheNextReplicaIsTriedAtOnce) {
  // One that was connected is given a moment to come back.
  EXPECT_THAT(machine.StreamEnded(absl::UnavailableError("gone"), kNow, true), IsEmpty());
  absl::Duration now = kNow + absl::Seconds(1);
  EXPECT_THAT(Kinds(machine.Tick(now)), ElementsAre(Kind::kConnect));
  EXPECT_THAT(Kinds(machine.StreamEnded(absl::UnavailableError("gone"), now, true)),
              ElementsAre(Kind::kConnectNext));
  // With the patience of its own.
  now += absl::Seconds(29);
  EXPECT_EQ(machine.NextDeadline(), now + absl::Seconds(1));
  EXPECT_THAT(Kinds(machine.StreamEnded(absl::CancelledError("silent"), now, true)),
              ElementsAre(Kind::kConnectNext));
  EXPECT_THAT(machine.Tick(now + absl::Seconds(29)), IsEmpty());
  // All have failed: that is one failure.
  EXPECT_THAT(machine.StreamEnded(absl::UnavailableError("gone"), now, false), IsEmpty());
  EXPECT_EQ(machine.NextDeadline(), now + absl::Seconds(2));
}

TEST_F(LeaseMachineTest, AnotherReplicaWouldRefuseTheAgentToo) {
  machine.StreamEnded(absl::UnavailableError("gone"), kNow);
  machine.Tick(kNow + absl::Seconds(1));
  EXPECT_THAT(
      machine.StreamEnded(absl::PermissionDeniedError("no role"), kNow + absl::Seconds(1), true),
      IsEmpty());
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(61));
}

TEST_F(LeaseMachineTest, LooksForABetterReplicaNowAndThen) {
  const absl::Duration first = NextLook(kNow);
  EXPECT_EQ(first, kNow + absl::Seconds(225));  // 3 minutes and a quarter.
  // No second check starts while one is running.
  EXPECT_EQ(NextLook(first), absl::InfiniteDuration());
  const absl::Duration later = first + absl::Seconds(10);
  EXPECT_THAT(machine.Looked(false, later), IsEmpty());
  EXPECT_EQ(NextLook(later), later + absl::Seconds(225));
  EXPECT_TRUE(machine.is_connected());
}

TEST_F(LeaseMachineTest, MovesToABetterReplica) {
  machine.Looked(true, kNow);
  EXPECT_LE(machine.NextDeadline(), kNow);
  EXPECT_THAT(Kinds(machine.Tick(kNow)), ElementsAre(Kind::kDisconnect));
  EXPECT_FALSE(machine.is_connected());
  EXPECT_THAT(Kinds(machine.Request(Request("r"), kNow)), ElementsAre(Kind::kRefused));
  // That is no failure, and needs no pause.
  EXPECT_THAT(Kinds(machine.StreamEnded(absl::CancelledError("moves"), kNow)),
              ElementsAre(Kind::kConnect));
  EXPECT_OK(machine.last_end());
  machine.Received(Welcome(), kNow);
  EXPECT_TRUE(machine.is_connected());
  EXPECT_THAT(machine.Tick(kNow), IsEmpty());
}

TEST_F(LeaseMachineTest, ANodeThatIsLentDoesNotMove) {
  machine.Request(Request("r"), kNow);
  machine.Looked(true, kNow);
  EXPECT_THAT(machine.Tick(kNow), IsEmpty()) << "the answer is still to come";
  machine.Received(Granted("g", "r", 60), kNow);
  machine.Received(Opened("o", 60, 1), kNow);
  EXPECT_THAT(machine.Tick(kNow), IsEmpty());
  machine.Received(Ended("o"), kNow);
  EXPECT_THAT(machine.Tick(kNow), IsEmpty());
  machine.Return("g", "", kNow);
  EXPECT_THAT(machine.Tick(kNow), IsEmpty()) << "the server is to hear of it first";
  EXPECT_EQ(machine.NextDeadline(), kNow + absl::Seconds(2));
  EXPECT_THAT(Kinds(machine.Tick(kNow + absl::Seconds(2))), ElementsAre(Kind::kDisconnect));
}

TEST_F(LeaseMachineTest, WhatALookSaysHoldsForOneStream) {
  machine.Looked(true, kNow);
  machine.StreamEnded(absl::UnavailableError("gone"), kNow);
  machine.Tick(kNow + absl::Seconds(1));
  machine.Looked(true, kNow + absl::Seconds(1));
  machine.Received(Welcome(), kNow + absl::Seconds(1));
  EXPECT_THAT(machine.Tick(kNow + absl::Seconds(1)), IsEmpty());
}

TEST_F(LeaseMachineTest, WhatNobodyAskedForIsIgnored) {
  EXPECT_THAT(machine.Received(Granted("l", "never", 60), kNow), IsEmpty());
  EXPECT_THAT(machine.Received(Ended("never"), kNow), IsEmpty());
  EXPECT_THAT(machine.Received(Renewed("never", 60), kNow), IsEmpty());
  EXPECT_THAT(machine.Received(v1::ConnectAgentResponse(), kNow), IsEmpty());
  EXPECT_THAT(machine.Received(Welcome(), kNow), IsEmpty());
}

// Messages and events in any order: requests are answered once, leases end once, streams
// come one after the other, and once all is quiet nothing is held.
TEST(LeaseMachineLaws, HoldOverRandomLives) {
  int move_count = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
    LeaseMachine machine(Options(), [&] { return below(1001) / 1000.0; });
    std::set<std::string> asked;
    std::set<std::string> held;
    bool has_stream = false;
    bool was_connected = false;
    absl::Duration now = kNow;
    const auto read = [&](const Actions& actions) {
      for (const LeaseAction& action : actions) {
        switch (action.kind) {
          case Kind::kConnect:
          case Kind::kConnectNext:
            ASSERT_FALSE(has_stream);
            has_stream = true;
            break;
          case Kind::kDisconnect:
            ASSERT_TRUE(has_stream);
            // The stream moves without ending a lease.
            if (was_connected) {
              ASSERT_THAT(held, IsEmpty());
              ASSERT_THAT(asked, IsEmpty());
              ++move_count;
            }
            break;
          case Kind::kWelcomed:
          case Kind::kLook:
          case Kind::kSend:
            ASSERT_TRUE(has_stream);
            break;
          case Kind::kGranted:
            ASSERT_EQ(asked.erase(action.lease.request_id()), 1);
            ASSERT_TRUE(held.insert(action.lease.lease_id()).second);
            break;
          case Kind::kRefused:
            ASSERT_EQ(asked.erase(action.refusal.request_id()), 1);
            break;
          case Kind::kOpened:
            ASSERT_TRUE(held.insert(action.lease.lease_id()).second);
            break;
          case Kind::kEnded:
            ASSERT_EQ(held.erase(action.end.lease_id()), 1);
            break;
        }
      }
    };
    read(machine.Start(now));
    int number = 0;
    for (int i = 0; i < 400 && !testing::Test::HasFatalFailure(); ++i) {
      const std::string some = absl::StrCat(number - below(4));
      switch (below(11)) {
        case 0:
          if (has_stream) read(machine.Received(Welcome(), now));
          break;
        case 1:
          if (has_stream && below(4) == 0) {
            has_stream = false;
            read(machine.StreamEnded(absl::UnavailableError("gone"), now, below(2) == 0));
            ASSERT_THAT(held, IsEmpty());
            ASSERT_THAT(asked, IsEmpty());
          }
          break;
        case 2: {
          const std::string id = absl::StrCat(++number);
          asked.insert(id);
          read(machine.Request(Request(id), now));
          break;
        }
        case 3:
          read(machine.Received(Granted(absl::StrCat("g", some), some, 1 + below(60)), now));
          break;
        case 4:
          read(machine.Received(Opened(absl::StrCat("o", ++number), 1 + below(60), 1), now));
          break;
        case 5:
          read(machine.Received(Ended(absl::StrCat(below(2) == 0 ? "g" : "o", some)), now));
          break;
        case 6:
          read(machine.Received(Renewed(absl::StrCat("g", some), 1 + below(60)), now));
          break;
        case 7: {
          const std::string lease = absl::StrCat(below(2) == 0 ? "g" : "o", some);
          read(machine.Return(lease, "", now));
          held.erase(lease);
          break;
        }
        case 8:
          read(machine.SetBusy(below(2) == 0, now));
          break;
        case 9:
          now += absl::Seconds(below(20));
          was_connected = machine.is_connected();
          read(machine.Tick(now));
          was_connected = false;
          break;
        case 10:
          read(machine.Looked(below(2) == 0, now));
          break;
      }
    }
    // The server falls silent, and its stream ends.
    now += absl::Minutes(2);
    read(machine.Tick(now));
    EXPECT_THAT(held, IsEmpty());
    if (has_stream) {
      has_stream = false;
      read(machine.StreamEnded(absl::UnavailableError("gone"), now));
    }
    EXPECT_THAT(asked, IsEmpty());
    EXPECT_LE(machine.NextDeadline(), now + absl::Minutes(1));
  }
  EXPECT_GT(move_count, 0);
}

}  // namespace
}  // namespace parplan
