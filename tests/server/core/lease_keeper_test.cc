#include "server/core/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = LeaseNews::Kind;
using News = LeaseKeeper::News;

constexpr absl::Duration kStart = absl::Hours(5);

Limits SmallLimits() {
  Limits limits;
  limits.max_agent_count = 6;
  limits.max_lease_node_count = 4;
  limits.max_lease_duration = absl::Minutes(10);
  limits.longest_agent_silence = absl::Seconds(50);
  return limits;
}

AgentFacts Facts(const std::string& node, const std::string& instance = "first",
                 const std::string& cluster = "lab") {
  return {.cluster = cluster,
          .node = node,
          .instance = instance,
          .release = "test",
          .host = absl::StrCat("host-", instance, "-of-", node),
          .device_kind = "CPU",
          .device_count = 2,
          .fingerprint = ""};
}

LeaseQuestion Question(std::vector<std::string> nodes,
                       absl::Duration duration = absl::ZeroDuration()) {
  LeaseQuestion question;
  question.request_id = "question";
  question.nodes = std::move(nodes);
  question.duration = duration;
  return question;
}

std::vector<std::pair<AgentConnection, Kind>> Gist(const News& news) {
  std::vector<std::pair<AgentConnection, Kind>> gist;
  for (const LeaseNews& entry : news) gist.emplace_back(entry.to, entry.kind);
  return gist;
}

auto To(AgentConnection connection, Kind kind) { return testing::Pair(connection, kind); }

// Nodes a, b and c are connected as 1, 2 and 3.
class LeaseKeeperTest : public testing::Test {
 protected:
  LeaseKeeperTest() {
    AgentConnection connection = 0;
    for (const char* node : {"a", "b", "c"}) {
      EXPECT_OK(keeper.Connect(++connection, Facts(node), false, kStart).status());
    }
  }

  News Grant(AgentConnection connection, const LeaseQuestion& question,
             const std::string& id = "lease") {
    const auto answer = keeper.Request(connection, question, id, "token", kStart);
    EXPECT_OK(answer.status());
    if (!answer.ok() || !std::holds_alternative<News>(*answer)) return {};
    return std::get<News>(*answer);
  }

  std::optional<LeaseRefusalKind> Refusal(AgentConnection connection,
                                          const LeaseQuestion& question) {
    const auto answer = keeper.Request(connection, question, "refused", "token", kStart);
    EXPECT_OK(answer.status());
    if (!answer.ok() || !std::holds_alternative<LeaseRefused>(*answer)) return std::nullopt;
    return std::get<LeaseRefused>(*answer).kind;
  }

  LeaseKeeper keeper{SmallLimits()};
};

TEST_F(LeaseKeeperTest, ALeaseIsGrantedOpenedRenewedAndReturned) {
  const News granted = Grant(2, Question({"a", "b"}));
  ASSERT_THAT(Gist(granted), ElementsAre(To(2, Kind::kGranted)));
  EXPECT_EQ(granted[0].lease.host, 1);
  EXPECT_EQ(granted[0].lease.token, "token");
  EXPECT_EQ(granted[0].lease.end, kStart + LeaseKeeper::kDefaultLease);
  ASSERT_OK_AND_ASSIGN(const News opened, keeper.Open(2, "lease", 4242));
  ASSERT_THAT(Gist(opened), ElementsAre(To(1, Kind::kOpened), To(2, Kind::kOpened)));
  EXPECT_EQ(opened[0].lease.rendezvous_port, 4242);
  ASSERT_OK_AND_ASSIGN(const News renewed,
                       keeper.Renew(2, "lease", absl::Minutes(3), kStart + absl::Seconds(30)));
  ASSERT_THAT(Gist(renewed), ElementsAre(To(1, Kind::kRenewed), To(2, Kind::kRenewed)));
  EXPECT_EQ(renewed[0].lease.end, kStart + absl::Seconds(210));
  ASSERT_OK_AND_ASSIGN(const News returned, keeper.Return(2, "lease", ""));
  ASSERT_THAT(Gist(returned), ElementsAre(To(1, Kind::kEnded), To(2, Kind::kEnded)));
  EXPECT_EQ(returned[0].outcome, LeaseOutcome::kReturned);
  EXPECT_EQ(keeper.lease_count(), 0);
  EXPECT_THAT(Gist(Grant(1, Question({"a"}))), ElementsAre(To(1, Kind::kGranted)));
}

TEST_F(LeaseKeeperTest, NobodyIsLentTwiceNorWhereAJobRuns) {
  Grant(1, Question({"a", "b"}));
  EXPECT_EQ(Refusal(3, Question({"c", "b"})), LeaseRefusalKind::kNodeLent);
  EXPECT_EQ(Refusal(1, Question({"a"})), LeaseRefusalKind::kNodeLent);
  EXPECT_EQ(Refusal(3, Question({"c", "elsewhere"})), LeaseRefusalKind::kNodeAbsent);
  keeper.SetBusy(3, true);
  EXPECT_EQ(Refusal(3, Question({"c"})), LeaseRefusalKind::kNodeBusy);
  LeaseQuestion insistent = Question({"c"});
  insistent.even_if_busy = true;
  EXPECT_THAT(Gist(Grant(3, insistent, "second")), ElementsAre(To(3, Kind::kGranted)));
}

TEST_F(LeaseKeeperTest, NodesOfAnotherClusterAreAbsent) {
  ASSERT_OK(keeper.Connect(9, Facts("far", "first", "other"), false, kStart).status());
  EXPECT_EQ(Refusal(1, Question({"a", "far"})), LeaseRefusalKind::kNodeAbsent);
}

TEST_F(LeaseKeeperTest, AMemberGivesUpForAllAndOnlyTheHostOpensAndRenews) {
  Grant(1, Question({"a", "b"}));
  const auto field = [](const absl::Status& status) { return FactOf(status, "field"); };
  EXPECT_EQ(field(keeper.Open(2, "lease", 1).status()), "open_lease.lease_id");
  EXPECT_EQ(field(keeper.Renew(2, "lease", absl::Seconds(1), kStart).status()),
            "renew_lease.lease_id");
  EXPECT_EQ(field(keeper.Return(3, "lease", "").status()), "return_lease.lease_id");
  EXPECT_EQ(field(keeper.Open(1, "lease", 65536).status()), "open_lease.rendezvous_port");
  ASSERT_OK(keeper.Open(1, "lease", 1).status());
  EXPECT_EQ(field(keeper.Open(1, "lease", 1).status()), "open_lease.lease_id");
  ASSERT_OK_AND_ASSIGN(const News ended, keeper.Return(2, "lease", "no memory"));
  ASSERT_EQ(ended.size(), 2);
  EXPECT_EQ(ended[0].outcome, LeaseOutcome::kGivenUp);
  EXPECT_EQ(ended[0].node, "b");
  EXPECT_THAT(ended[0].detail, testing::HasSubstr("no memory"));
}

TEST_F(LeaseKeeperTest, ALateWordAboutALeaseThatEndedIsNoError) {
  EXPECT_THAT(keeper.Open(1, "gone", 1), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(keeper.Renew(1, "gone", absl::Seconds(1), kStart), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(keeper.Return(1, "gone", ""), IsOkAndHolds(IsEmpty()));
}

TEST_F(LeaseKeeperTest, ALeaseExpiresAndNoRenewalMakesItLongerThanTheLimit) {
  Grant(1, Question({"a", "b"}, absl::Hours(100)));
  ASSERT_OK(keeper.Open(1, "lease", 1).status());
  const absl::Duration end = kStart + absl::Minutes(10);
  for (absl::Duration now = kStart; now < end; now += absl::Seconds(30)) {
    for (const AgentConnection connection : {1, 2, 3}) keeper.Heard(connection, now);
    ASSERT_OK(keeper.Renew(1, "lease", absl::Minutes(30), now).status());
    EXPECT_THAT(keeper.Tick(now), IsEmpty());
  }
  for (const AgentConnection connection : {1, 2, 3}) keeper.Heard(connection, end);
  EXPECT_EQ(keeper.NextDeadline(), end);
  const News ended = keeper.Tick(end);
  ASSERT_THAT(Gist(ended), ElementsAre(To(1, Kind::kEnded), To(2, Kind::kEnded)));
  EXPECT_EQ(ended[0].outcome, LeaseOutcome::kExpired);
  EXPECT_THAT(keeper.Renew(1, "lease", absl::Minutes(1), end), IsOkAndHolds(IsEmpty()));
}

TEST_F(LeaseKeeperTest, ARenewalThatComesTooLateEndsTheLease) {
  Grant(1, Question({"a"}, absl::Seconds(5)));
  ASSERT_OK_AND_ASSIGN(const News news,
                       keeper.Renew(1, "lease", absl::Minutes(1), kStart + absl::Seconds(5)));
  ASSERT_THAT(Gist(news), ElementsAre(To(1, Kind::kEnded)));
  EXPECT_EQ(news[0].outcome, LeaseOutcome::kExpired);
}

TEST_F(LeaseKeeperTest, ALostAgentEndsTheLeaseForAll) {
  Grant(1, Question({"a", "b"}));
  ASSERT_OK(keeper.Open(1, "lease", 1).status());
  const News lost = keeper.Disconnect(2);
  ASSERT_THAT(Gist(lost), ElementsAre(To(1, Kind::kEnded), To(2, Kind::kEnded)));
  EXPECT_EQ(lost[0].outcome, LeaseOutcome::kAgentLost);
  EXPECT_EQ(lost[0].node, "b");
  EXPECT_EQ(keeper.agent_count(), 2);
  EXPECT_THAT(keeper.Disconnect(2), IsEmpty());
}

TEST_F(LeaseKeeperTest, ASilentAgentIsLost) {
  const absl::Duration later = kStart + SmallLimits().longest_agent_silence;
  keeper.Heard(1, kStart + absl::Seconds(1));
  EXPECT_EQ(keeper.NextDeadline(), later);
  const News silent = keeper.Tick(later);
  ASSERT_THAT(Gist(silent), ElementsAre(To(2, Kind::kDisconnected), To(3, Kind::kDisconnected)));
  EXPECT_THAT(silent[0].status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(keeper.agent_count(), 1);
}

TEST_F(LeaseKeeperTest, ASecondAgentOfTheSameNodeIsRefusedWhileTheFirstLives) {
  const auto liar = keeper.Connect(7, Facts("a", "second"), false, kStart + absl::Seconds(49));
  EXPECT_THAT(liar.status(), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(ReasonOf(liar.status()), Reason::kAgentConnected);
  EXPECT_EQ(FactOf(liar.status(), "host"), "host-first-of-a");
  // The machine was lost without a word, and another came in its place.
  ASSERT_OK_AND_ASSIGN(const News replaced,
                       keeper.Connect(7, Facts("a", "second"), false, kStart + absl::Seconds(50)));
  EXPECT_THAT(Gist(replaced), ElementsAre(To(1, Kind::kDisconnected)));
}

TEST_F(LeaseKeeperTest, TheSameAgentTakesThePlaceOfItsEarlierStream) {
  Grant(2, Question({"a", "b"}));
  ASSERT_OK(keeper.Open(2, "lease", 1).status());
  ASSERT_OK_AND_ASSIGN(const News news, keeper.Connect(7, Facts("a"), false, kStart));
  ASSERT_THAT(Gist(news),
              ElementsAre(To(1, Kind::kEnded), To(2, Kind::kEnded), To(1, Kind::kDisconnected)));
  EXPECT_EQ(news[1].outcome, LeaseOutcome::kAgentLost);
  EXPECT_EQ(keeper.agent_count(), 3);
  // Late messages of the earlier stream have no effect.
  EXPECT_THAT(keeper.Disconnect(1), IsEmpty());
  EXPECT_THAT(Grant(1, Question({"a"})), IsEmpty());
}

TEST_F(LeaseKeeperTest, NoMoreAgentsThanMayBe) {
  for (AgentConnection connection = 4; connection <= 6; ++connection) {
    ASSERT_OK(
        keeper.Connect(connection, Facts(absl::StrCat("n", connection)), false, kStart).status());
  }
  EXPECT_THAT(keeper.Connect(7, Facts("n7"), false, kStart).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  // One that comes back takes no room.
  EXPECT_OK(keeper.Connect(8, Facts("n4"), false, kStart).status());
}

TEST_F(LeaseKeeperTest, QuestionsThatMakeNoSenseNameTheirField) {
  const auto field = [&](const LeaseQuestion& question) {
    return FactOf(keeper.Request(1, question, "x", "token", kStart).status(), "field");
  };
  EXPECT_EQ(field(Question({})), "request_lease.node_ids");
  EXPECT_EQ(field(Question({"b"})), "request_lease.node_ids");
  EXPECT_EQ(field(Question({"a", "b", "a"})), "request_lease.node_ids[2]");
  EXPECT_EQ(field(Question({"a", "b", "c", "d", "e"})), "request_lease.node_ids");
  EXPECT_EQ(field(Question({"a"}, -absl::Seconds(1))), "request_lease.duration");
}

TEST_F(LeaseKeeperTest, ClosingEndsEverything) {
  Grant(1, Question({"a", "b"}));
  const News news = keeper.Close(absl::UnavailableError("ends"), "the server shuts down");
  EXPECT_THAT(Gist(news), ElementsAre(To(1, Kind::kEnded), To(1, Kind::kDisconnected),
                                      To(2, Kind::kDisconnected), To(3, Kind::kDisconnected)));
  EXPECT_EQ(news[0].outcome, LeaseOutcome::kDraining);
  EXPECT_EQ(keeper.NextDeadline(), std::nullopt);
}

TEST_F(LeaseKeeperTest, ListsTheAgentsOfAClusterByNode) {
  ASSERT_OK(keeper.Connect(9, Facts("a", "first", "other"), true, kStart).status());
  Grant(2, Question({"b"}));
  const std::vector<ConnectedAgent> list = keeper.List("lab", kStart + absl::Seconds(3));
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[1].facts.node, "b");
  EXPECT_EQ(list[1].lease_id, "lease");
  EXPECT_EQ(list[2].silent_for, absl::Seconds(3));
  EXPECT_TRUE(keeper.List("other", kStart)[0].is_busy);
}

// Random events, compared with a model of what each connection received. At all times a node is in
// at most one lease and all nodes of a lease are connected. Every lease ends once for everyone who
// knows of it, and in time.
TEST(LeaseKeeperLaws, HoldOverRandomLives) {
  int ended_count = 0;
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
    const Limits limits = SmallLimits();
    LeaseKeeper keeper(limits);
    absl::Duration now = kStart;
    AgentConnection last = 0;
    std::map<AgentConnection, std::string> connected;        // Node by connection.
    std::map<std::string, NodeLease> open;                   // Granted and not ended.
    std::map<std::string, std::set<AgentConnection>> heard;  // Of each lease.
    int lease_number = 0;

    const auto read = [&](const News& all) {
      for (const LeaseNews& news : all) {
        const std::string& id = news.lease.id;
        switch (news.kind) {
          case Kind::kGranted:
            ASSERT_TRUE(open.emplace(id, news.lease).second);
            heard[id].insert(news.to);
            break;
          case Kind::kOpened:
            heard[id].insert(news.to);
            break;
          case Kind::kRenewed:
            ASSERT_EQ(heard[id].count(news.to), 1);
            ASSERT_LE(news.lease.end, news.lease.start + limits.max_lease_duration);
            open[id] = news.lease;
            break;
          case Kind::kEnded:
            ASSERT_EQ(heard[id].erase(news.to), 1) << "told twice, or never told of it";
            if (heard[id].empty()) ended_count += open.erase(id) > 0 ? 1 : 0;
            break;
          case Kind::kDisconnected:
            ASSERT_EQ(connected.erase(news.to), 1);
            break;
        }
      }
    };
    for (int i = 0; i < 600; ++i) {
      // Mostly one that is there.
      const auto any = [&]() -> AgentConnection {
        if (connected.empty() || below(8) == 0) return 1 + below(static_cast<int>(last) + 1);
        return std::next(connected.begin(), below(static_cast<int>(connected.size())))->first;
      };
      const std::string node = absl::StrCat("n", below(5));
      const std::string id =
          lease_number == 0
              ? "none"
              : absl::StrCat("lease-", lease_number - below(std::min(4, lease_number)));
      switch (below(9)) {
        case 0: {
          const auto news =
              keeper.Connect(last + 1, Facts(node, absl::StrCat(below(2))), below(4) == 0, now);
          ++last;
          if (!news.ok()) break;
          ASSERT_NO_FATAL_FAILURE(read(*news));
          connected[last] = node;
          break;
        }
        case 1: {
          const AgentConnection gone = any();
          if (below(8) > 0) break;
          const News news = keeper.Disconnect(gone);
          ASSERT_NO_FATAL_FAILURE(read(news));
          connected.erase(gone);
          break;
        }
        case 2:
        case 3: {
          LeaseQuestion question = Question({}, absl::Seconds(below(900)));
          std::set<std::string> nodes;
          for (int n = 1 + below(3); n > 0; --n) nodes.insert(absl::StrCat("n", below(5)));
          question.nodes.assign(nodes.begin(), nodes.end());
          question.even_if_busy = below(2) == 0;
          const auto answer =
              keeper.Request(any(), question, absl::StrCat("lease-", ++lease_number), "token", now);
          if (answer.ok() && std::holds_alternative<News>(*answer)) {
            ASSERT_NO_FATAL_FAILURE(read(std::get<News>(*answer)));
          }
          break;
        }
        case 4: {
          const auto news = keeper.Open(any(), id, 1 + below(65535));
          if (news.ok()) {
            ASSERT_NO_FATAL_FAILURE(read(*news));
          }
          break;
        }
        case 5: {
          const auto news = keeper.Renew(any(), id, absl::Seconds(1 + below(900)), now);
          if (news.ok()) {
            ASSERT_NO_FATAL_FAILURE(read(*news));
          }
          break;
        }
        case 6: {
          const auto news = keeper.Return(any(), id, below(2) == 0 ? "" : "why");
          if (news.ok()) {
            ASSERT_NO_FATAL_FAILURE(read(*news));
          }
          break;
        }
        case 7:
          for (const auto& [connection, unused] : connected) {
            if (below(8) > 0) keeper.Heard(connection, now);
          }
          break;
        case 8: {
          now += absl::Seconds(below(25));
          const News news = keeper.Tick(now);
          ASSERT_NO_FATAL_FAILURE(read(news));
          break;
        }
      }
      ASSERT_EQ(keeper.lease_count(), static_cast<int>(open.size()));
      ASSERT_EQ(keeper.agent_count(), static_cast<int>(connected.size()));
      ASSERT_LE(keeper.agent_count(), limits.max_agent_count);
      std::set<AgentConnection> lent;
      for (const auto& [unused, lease] : open) {
        ASSERT_LE(lease.end, lease.start + limits.max_lease_duration);
        for (const NodeLease::Node& member : lease.nodes) {
          ASSERT_EQ(connected.count(member.connection), 1);
          ASSERT_TRUE(lent.insert(member.connection).second) << "lent twice";
        }
      }
    }
    // Everybody falls silent: all ends by itself, deadline by deadline.
    while (const std::optional<absl::Duration> deadline = keeper.NextDeadline()) {
      now = std::max(now, *deadline);
      const News news = keeper.Tick(now);
      ASSERT_FALSE(news.empty()) << "a deadline at which nothing ends";
      ASSERT_NO_FATAL_FAILURE(read(news));
    }
    EXPECT_THAT(open, IsEmpty());
    EXPECT_EQ(keeper.agent_count(), 0);
  }
  EXPECT_GT(ended_count, 1000) << "too few leases to say anything";
}

TEST(LeaseKeeperQuota, AgentsOfAnIdentityAndOfAClusterEndAtTheirQuotas) {
  Limits limits;
  limits.identity_quota.agent_count = 2;
  limits.cluster_quota.agent_count = 3;
  LeaseKeeper keeper(limits);
  AgentConnection last = 0;
  const auto connect = [&](const std::string& node, const std::string& cluster,
                           const std::string& holder) {
    return keeper.Connect(++last, Facts(node, "first", cluster), false, kStart, holder).status();
  };
  ASSERT_OK(connect("a", "lab", "cn:one"));
  ASSERT_OK(connect("a", "invented", "cn:one"));
  const absl::Status mine = connect("b", "invented-too", "cn:one");
  EXPECT_THAT(mine, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(FactOf(mine, "quota"), "identity.agents");
  EXPECT_EQ(FactOf(mine, "holder"), "cn:one");
  EXPECT_EQ(FactOf(mine, "limit"), "2");
  EXPECT_TRUE(GetRetryDelay(mine).has_value());
  // One that connects anew is no other.
  EXPECT_OK(connect("a", "lab", "cn:one"));
  EXPECT_OK(connect("b", "lab", "cn:two"));
  EXPECT_OK(connect("c", "lab", ""));
  const absl::Status full = connect("d", "lab", "cn:three");
  EXPECT_EQ(FactOf(full, "quota"), "cluster.agents");
  EXPECT_EQ(FactOf(full, "holder"), "lab");
  EXPECT_EQ(keeper.agent_count(), 4);
}

}  // namespace
}  // namespace parplan
