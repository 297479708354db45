#include "executor/device/comm/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<RendezvousServer> StartServer(int world_size) {
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::Start({.token = "secret", .world_size = world_size});
  EXPECT_OK(server.status());
  return *std::move(server);
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Join(const RendezvousServer& server, int rank,
                                                 int world_size,
                                                 const std::string& token = "secret") {
  return Rendezvous::Join({.address = server.address(),
                           .token = token,
                           .rank = rank,
                           .world_size = world_size,
                           .patience = absl::Seconds(20)});
}

TEST(Rendezvous, FactsAreToldBeforeAndAfterTheyAreAskedFor) {
  const std::unique_ptr<RendezvousServer> server = StartServer(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> first, Join(*server, 0, 2));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> second, Join(*server, 1, 2));
  ASSERT_OK(first->Set("a", "1"));
  EXPECT_THAT(second->Get("a", absl::Seconds(20)), IsOkAndHolds("1"));
  std::thread waits([&] { EXPECT_THAT(first->Get("b", absl::Seconds(20)), IsOkAndHolds("2")); });
  ASSERT_OK(second->Set("b", "2"));
  waits.join();
  EXPECT_THAT(first->Get("c", absl::Milliseconds(10)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("\"c\""), HasSubstr("all ranks have come"))));
  // Again the same is no contradiction.
  ASSERT_OK(second->Set("b", "2"));
  EXPECT_THAT(second->Get("b", absl::Seconds(20)), IsOkAndHolds("2"));
  EXPECT_OK(first->Health());
}

TEST(Rendezvous, RefusesStrangersAndSecondRanks) {
  const std::unique_ptr<RendezvousServer> server = StartServer(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> first, Join(*server, 0, 2));
  const auto refused = [](const absl::StatusOr<std::unique_ptr<Rendezvous>>& joined) {
    return std::string(joined.status().message());
  };
  EXPECT_THAT(refused(Join(*server, 1, 2, "guess")), HasSubstr("wrong token"));
  EXPECT_THAT(refused(Join(*server, 0, 2)), HasSubstr("rank 0 is here already"));
  EXPECT_THAT(refused(Join(*server, 1, 3)), HasSubstr("the job has 2 ranks, not 3"));
  EXPECT_THAT(refused(Join(*server, 2, 2)), HasSubstr("no such rank"));
  EXPECT_OK(first->Health());
}

// A program at the port of the rendezvous that does not know the token: what it answers, and what
// it has then heard.
std::string HeardByImpostor(const std::function<Frame(const Frame& hello)>& answer) {
  absl::StatusOr<Listener> listener = Listener::Open("127.0.0.1", 0);
  EXPECT_OK(listener.status());
  std::string heard;
  std::thread impostor([&] {
    ASSERT_OK_AND_ASSIGN(const Socket guest, listener->Accept(SteadyNow() + kLong));
    ASSERT_OK_AND_ASSIGN(const Frame hello, ReadFrame(guest, SteadyNow() + kLong));
    ASSERT_OK(WriteFrame(guest, answer(hello), SteadyNow() + kLong));
    absl::StatusOr<Frame> frame = hello;
    while (frame.ok()) {
      absl::StrAppend(&heard, static_cast<int>(frame->kind), "|", frame->key, "|", frame->value,
                      "\n");
      frame = ReadFrame(guest, SteadyNow() + kLong);
    }
  });
  const auto joined = Rendezvous::Join({.address = absl::StrCat("127.0.0.1:", listener->port()),
                                        .token = "secret",
                                        .rank = 0,
                                        .world_size = 1,
                                        .patience = kLong});
  EXPECT_THAT(joined.status(),
              AnyOf(StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("token")),
                    StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rendezvous"))));
  impostor.join();
  return heard;
}

TEST(Rendezvous, AnImpostorAtItsPortLearnsNoTokenAndNoProof) {
  const auto challenge = [](const std::string& nonce, const std::string& proof) {
    return Frame{.kind = FrameKind::kChallenge, .key = nonce, .value = proof};
  };
  const std::string nonce(kNonceSize, 'n');
  // A challenge of the same nonces that somebody recorded, for another rank and from another side.
  const auto recorded = [&](const Frame& hello, int caller, HandshakeSide side) {
    return challenge(nonce, MakeProof(side,
                                      {.purpose = kMeetingPurpose,
                                       .caller = caller,
                                       .context = hello.value,
                                       .caller_nonce = hello.key,
                                       .listener_nonce = nonce},
                                      "secret"));
  };
  const std::vector<std::function<Frame(const Frame&)>> answers = {
      [&](const Frame&) { return challenge(nonce, std::string(kProofSize, 'p')); },
      [&](const Frame&) { return challenge(nonce, ""); },
      // What the rank said, returned to it.
      [&](const Frame& hello) { return challenge(hello.key, hello.key); },
      [&](const Frame& hello) { return recorded(hello, 1, HandshakeSide::kListener); },
      [&](const Frame& hello) { return recorded(hello, 0, HandshakeSide::kCaller); },
      // As if the rank had proved itself.
      [&](const Frame&) { return Frame{.kind = FrameKind::kWelcome}; },
      [&](const Frame& hello) { return hello; }};
  for (size_t k = 0; k < answers.size(); ++k) {
    const std::string heard = HeardByImpostor(answers[k]);
    // A hello (1) with a nonce and the number of ranks, and perhaps a refusal (3) without words.
    EXPECT_EQ(heard.substr(0, 2), "1|") << k;
    const std::string rest = heard.substr(2 + kNonceSize);
    EXPECT_THAT(rest, AnyOf("|1\n", "|1\n3||\n")) << k;
    EXPECT_THAT(heard, Not(HasSubstr("secret"))) << k;
  }
}

TEST(Rendezvous, ANonceIsUsedOnce) {
  const auto answer = [](const Frame&) {
    return Frame{.kind = FrameKind::kRefused, .value = "token"};
  };
  EXPECT_NE(HeardByImpostor(answer), HeardByImpostor(answer));
}

TEST(Rendezvous, WhoWaitsHearsForWhom) {
  const std::unique_ptr<RendezvousServer> server = StartServer(3);
  std::promise<std::string> first_notice;
  bool has_notice = false;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank,
                       Rendezvous::Join({.address = server->address(),
                                         .token = "secret",
                                         .rank = 0,
                                         .world_size = 3,
                                         .patience = absl::Seconds(20),
                                         .on_notice =
                                             [&](const std::string& notice) {
                                               // The server may hear later that rank 2 gave up.
                                               if (!absl::StrContains(notice, "refused")) return;
                                               if (!std::exchange(has_notice, true))
                                                 first_notice.set_value(notice);
                                             },
                                         .notice_interval = absl::Milliseconds(10)}));
  EXPECT_EQ(Join(*server, 2, 3, "guess").status().code(), absl::StatusCode::kPermissionDenied);
  std::thread waits([&] { EXPECT_THAT(rank->Get("rank/2", kLong), IsOkAndHolds("here")); });
  EXPECT_THAT(first_notice.get_future().get(),
              AllOf(HasSubstr("rank 0 waits since"), HasSubstr("ranks 1, 2 have not come"),
                    HasSubstr("rank 2 was refused: wrong token")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> last, Join(*server, 2, 3));
  ASSERT_OK(last->Set("rank/2", "here"));
  waits.join();
  // Whoever gives up says the same.
  EXPECT_THAT(last->Get("rank/1", absl::Milliseconds(10)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("\"rank/1\""), HasSubstr("rank 1 has not come"))));
}

TEST(Rendezvous, JunkHarmsNobody) {
  const std::unique_ptr<RendezvousServer> server = StartServer(1);
  for (const std::string& junk : {std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
                                  std::string(64, '\xff'), std::string("\1")}) {
    ASSERT_OK_AND_ASSIGN(const Socket stranger,
                         Socket::Connect(server->address(), SteadyNow() + absl::Seconds(20)));
    ASSERT_OK(stranger.WriteAll(junk, SteadyNow() + absl::Seconds(20)));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank, Join(*server, 0, 1));
    EXPECT_OK(rank->Health());
    ASSERT_OK(rank->Set("a", "1"));
    EXPECT_THAT(rank->Get("a", absl::Seconds(20)), IsOkAndHolds("1"));
  }
}

TEST(Rendezvous, AContradictionEndsTheJob) {
  const std::unique_ptr<RendezvousServer> server = StartServer(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> first, Join(*server, 0, 2));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> second, Join(*server, 1, 2));
  ASSERT_OK(first->Set("a", "1"));
  ASSERT_OK(second->Set("a", "2"));
  EXPECT_THAT(first->Get("never", absl::Seconds(20)),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1 is lost"), HasSubstr("contradicts"))));
}

TEST(Rendezvous, OneThatLeavesWithAGoodByeIsNotLost) {
  const std::unique_ptr<RendezvousServer> server = StartServer(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> first, Join(*server, 0, 2));
  { ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> second, Join(*server, 1, 2)); }
  EXPECT_THAT(first->Get("never", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_OK(first->Health());
}

// The question may meet the end of the connection before the thread that reads does: asked often
// enough, both orders are met.
TEST(Rendezvous, ALostRankThatServesTheRendezvousIsNamed) {
  constexpr int kServers = 50;
  for (int i = 0; i < kServers; ++i) {
    absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(
        {.token = "secret", .world_size = 1, .serving_rank = 0, .serving_host = "h1"});
    ASSERT_OK(server);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank, Join(**server, 0, 1));
    server->reset();
    const auto is_named =
        StatusIs(absl::StatusCode::kUnavailable,
                 AllOf(HasSubstr("rank 0 is lost on host h1"), HasSubstr("serves")));
    if (i % 2 == 0) {
      EXPECT_THAT(rank->Get("never", absl::Seconds(20)), is_named);
    } else {
      // A fact that is said may leave before the loss is noticed; the next is not.
      (void)rank->Set("a", "1");
      EXPECT_THAT(rank->Get("never", absl::Seconds(20)), is_named);
    }
  }
}

TEST(Rendezvous, ALostRankIsNamedWithItsHost) {
  const std::unique_ptr<RendezvousServer> server = StartServer(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> first, Join(*server, 0, 2));
  {
    RawRank second(*server, 1, 2);
    ASSERT_OK(WriteFrame(second.socket,
                         {.kind = FrameKind::kSet, .key = RankFact(1), .value = "boot h2:4711"},
                         SteadyNow() + kLong));
    EXPECT_THAT(first->Get(RankFact(1), kLong), IsOkAndHolds("boot h2:4711"));
  }
  EXPECT_THAT(first->Get("never", kLong),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 is lost on host h2: ")));
}

TEST(Rendezvous, ALostServerIsNoticed) {
  std::unique_ptr<RendezvousServer> server = StartServer(1);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank, Join(*server, 0, 1));
  server.reset();
  EXPECT_THAT(rank->Get("never", absl::Seconds(20)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rendezvous is lost")));
}

// Takes the next rank's proof, and sets up TLS if wanted, as a server does.
Socket AcceptOne(const Listener& listener, bool with_tls) {
  absl::StatusOr<Socket> guest = listener.Accept(SteadyNow() + kLong);
  EXPECT_OK(guest);
  const absl::StatusOr<Frame> hello = ReadFrame(*guest, SteadyNow() + kLong);
  EXPECT_OK(hello);
  Handshake handshake = {.purpose = kMeetingPurpose};
  const absl::StatusOr<Frame> challenge = ChallengeTo(*hello, handshake, "secret");
  EXPECT_OK(challenge);
  EXPECT_OK(WriteFrame(*guest, *challenge, SteadyNow() + kLong));
  const absl::StatusOr<Frame> proof = ReadFrame(*guest, SteadyNow() + kLong);
  EXPECT_OK(proof);
  EXPECT_TRUE(IsProof(proof->key, HandshakeSide::kCaller, handshake, "secret"));
  if (with_tls) {
    EXPECT_OK(
        guest->FinishTls(TlsSide::kServer, TlsKeyOf(handshake, "secret"), SteadyNow() + kLong));
  }
  return *std::move(guest);
}

// Takes in the next rank as a server does that rank 0 on h1 serves.
Socket WelcomeOne(const Listener& listener) {
  Socket guest = AcceptOne(listener, /*with_tls=*/true);
  EXPECT_OK(WriteFrame(guest, {.kind = FrameKind::kWelcome, .number = 0 + 1, .value = "h1"},
                       SteadyNow() + kLong));
  return guest;
}

// A server drops those that have not proved themselves for many strangers, and the proof may be on
// its way then.
TEST(Rendezvous, ARankThatIsDroppedBeforeItsWelcomeComesAgain) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  std::thread server([&] {
    for (const bool hears_hello : {false, true}) {
      ASSERT_OK_AND_ASSIGN(const Socket dropped, listener.Accept(SteadyNow() + kLong));
      if (!hears_hello) continue;
      EXPECT_OK(ReadFrame(dropped, SteadyNow() + kLong).status());
    }
    for (const bool with_tls : {false, true}) AcceptOne(listener, with_tls);
    const Socket guest = WelcomeOne(listener);
    EXPECT_OK(ReadFrame(guest, SteadyNow() + kLong).status());
  });
  const auto joined = Rendezvous::Join({.address = absl::StrCat("127.0.0.1:", listener.port()),
                                        .token = "secret",
                                        .rank = 1,
                                        .world_size = 2,
                                        .patience = kLong});
  EXPECT_OK(joined.status());
  if (joined.ok()) {
    EXPECT_OK((*joined)->Set("a", "1"));
  }
  server.join();
}

TEST(Rendezvous, ARankThatServesTheRendezvousAndIsFrozenIsNamed) {
  // A server that welcomes and then says nothing.
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  std::thread server([&] {
    const Socket guest = WelcomeOne(listener);
    while (ReadFrame(guest, SteadyNow() + kLong).ok()) {
    }
  });
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank,
                         Rendezvous::Join({.address = absl::StrCat("127.0.0.1:", listener.port()),
                                           .token = "secret",
                                           .rank = 1,
                                           .world_size = 2,
                                           .patience = kLong,
                                           .verdict_patience = absl::Milliseconds(20)}));
    const absl::Status told = rank->ReportStall("a sum took long", 0);
    EXPECT_THAT(told, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("rank 0 on host h1"), HasSubstr("does not answer"),
                                     HasSubstr("a sum took long"))));
    EXPECT_EQ(rank->Health(), told);
  }
  server.join();
}

}  // namespace
}  // namespace parplan
