// Tests TLS on the connections of a job to its rendezvous.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/hello_reader.h"
#include "executor/device/comm/rendezvous.h"
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

// Somebody on the way from one listener to another, who passes on all bytes of one connection, in
// pieces, and may change them.
class Relay {
 public:
  // Changes a piece on its way to the listener or back.
  using Change = std::function<void(bool to_listener, std::string& piece)>;

  Relay(const std::string& target, Change change) : change_(std::move(change)) {
    absl::StatusOr<Listener> listener = Listener::Open("127.0.0.1", 0);
    EXPECT_OK(listener);
    address_ = absl::StrCat("127.0.0.1:", listener->port());
    thread_ = std::thread([this, target, own = std::make_shared<Listener>(*std::move(listener))] {
      absl::StatusOr<Socket> caller = own->Accept(SteadyNow() + kLong);
      absl::StatusOr<Socket> listening = Socket::Connect(target, SteadyNow() + kLong);
      if (caller.ok() && listening.ok()) Carry(*caller, *listening);
    });
  }
  // Both ends of the connection must be closed before.
  ~Relay() { thread_.join(); }

  const std::string& address() const { return address_; }
  // All that was passed on, in both directions. Once this has ended.
  std::string Heard() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return heard_;
  }

 private:
  void Carry(const Socket& caller, const Socket& listening) {
    std::array<pollfd, 2> ends = {{{.fd = caller.descriptor(), .events = POLLIN, .revents = 0},
                                   {.fd = listening.descriptor(), .events = POLLIN, .revents = 0}}};
    while (::poll(ends.data(), ends.size(), /*timeout=*/-1) > 0) {
      for (int side = 0; side < 2; ++side) {
        if (ends[side].revents == 0) continue;
        std::array<char, 1 << 16> bytes;
        const absl::StatusOr<int64_t> count =
            (side == 0 ? caller : listening).Receive(bytes.data(), bytes.size());
        if (!count.ok()) return;
        std::string piece(bytes.data(), *count);
        if (change_) change_(side == 0, piece);
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          heard_ += piece;
        }
        if (!(side == 0 ? listening : caller).WriteAll(piece, SteadyNow() + kLong).ok()) return;
      }
    }
  }

  const Change change_;
  std::string address_;
  std::mutex mutex_;
  std::string heard_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Rendezvous>> JoinAt(const std::string& address) {
  return Rendezvous::Join(
      {.address = address, .token = "secret", .rank = 0, .world_size = 1, .patience = kLong});
}

TEST(TlsJob, NobodyOnTheWayToTheRendezvousReadsFacts) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(1);
  Relay relay(server->address(), nullptr);
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank, JoinAt(relay.address()));
    ASSERT_OK(rank->Set("layer_key", "a_fact_of_the_job"));
    EXPECT_THAT(rank->Get("layer_key", kLong), IsOkAndHolds("a_fact_of_the_job"));
  }
  const std::string heard = relay.Heard();
  // The handshake is there, with the number of ranks, and nothing else.
  EXPECT_GT(heard.size(), 500u);
  for (const char* const word : {"layer_key", "a_fact", "secret"}) {
    EXPECT_THAT(heard, Not(HasSubstr(word)));
  }
}

// The last byte of a message is never part of a length, for which a side would wait.
TEST(TlsJob, AByteThatIsAlteredOnTheWayToTheRendezvousEndsTheJob) {
  int altered_count = 0;
  for (const bool to_listener : {true, false}) {
    bool was_altered = true;
    for (int number = 0; was_altered; ++number) {
      const std::unique_ptr<RendezvousServer> server = ServeJob(1);
      std::atomic<int> piece_count = 0;
      std::atomic<bool> has_altered = false;
      Relay relay(server->address(), [&](bool is_to_listener, std::string& piece) {
        if (piece.empty() || is_to_listener != to_listener || piece_count++ != number) return;
        piece.back() ^= 1;
        has_altered = true;
      });
      {
        const absl::StatusOr<std::unique_ptr<Rendezvous>> rank = JoinAt(relay.address());
        absl::Status status = rank.status();
        if (rank.ok()) {
          EXPECT_OK((*rank)->Set("a", "1"));
          const absl::StatusOr<std::string> fact = (*rank)->Get("a", kLong);
          status = fact.status();
          if (fact.ok()) {
            EXPECT_EQ(*fact, "1");
            EXPECT_FALSE(has_altered) << number;
          }
        }
        if (!status.ok()) {
          EXPECT_TRUE(has_altered) << number;
          EXPECT_THAT(std::string(status.message()),
                      AnyOf(HasSubstr("wrong token"), HasSubstr("altered on its way"),
                            // The alert may be lost with the connection.
                            HasSubstr("the other side")))
              << number;
        }
        was_altered = !status.ok();
        altered_count += was_altered ? 1 : 0;
      }
    }
  }
  // Each way: hello or challenge, proof, two flights of TLS, and frames; some come together.
  EXPECT_GE(altered_count, 5);
}

TEST(TlsJob, TheRendezvousNamesWhatWasAltered) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(3);
  const RawRank other(*server, 1, 3);
  std::atomic<bool> is_armed = false;
  Relay relay(server->address(), [&](bool to_listener, std::string& piece) {
    if (to_listener && !piece.empty() && is_armed.exchange(false)) piece.back() ^= 1;
  });
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> rank,
                       Rendezvous::Join({.address = relay.address(),
                                         .token = "secret",
                                         .rank = 0,
                                         .world_size = 3,
                                         .patience = kLong}));
  is_armed = true;
  ASSERT_OK(rank->Set("a", "1"));
  const Frame told = other.Read();
  EXPECT_EQ(told.kind, FrameKind::kFailure);
  EXPECT_THAT(told.value, AllOf(HasSubstr("rank 0 is lost"), HasSubstr("altered on its way")));
  // At all ranks: that one, and those that hear of it.
  EXPECT_THAT(rank->AwaitFailure(kLong), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rendezvous> third,
                       Rendezvous::Join({.address = server->address(),
                                         .token = "secret",
                                         .rank = 2,
                                         .world_size = 3,
                                         .patience = kLong}));
  EXPECT_THAT(third->AwaitFailure(kLong),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rank 0 is lost")));
}

// One that passes on the proofs of a rank, and then says nothing or something in plain.
TEST(TlsJob, WhoDoesNotGoOnWithTlsIsNoRank) {
  std::atomic<int64_t> milliseconds = 1'000'000;
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::Start({.token = "secret", .world_size = 2, .now = [&milliseconds] {
                                 return absl::Milliseconds(milliseconds.load());
                               }});
  ASSERT_OK(server);
  std::vector<Socket> relays;
  for (const bool is_silent : {true, false}) {
    ASSERT_OK_AND_ASSIGN(Socket socket, Socket::Connect((*server)->address(), SteadyNow() + kLong));
    Handshake handshake = {.purpose = kMeetingPurpose, .caller = is_silent ? 1 : 0, .context = "2"};
    ASSERT_OK(SayHello(socket, handshake, SteadyNow() + kLong));
    ASSERT_OK(ProveTo(socket, handshake, "secret", "", SteadyNow() + kLong));
    if (!is_silent) {
      ASSERT_OK(
          WriteFrame(socket, {.kind = FrameKind::kAbort, .value = "end"}, SteadyNow() + kLong));
      // The alert, and then the end.
      char byte = 0;
      absl::Status status;
      while (status.ok()) status = socket.ReadAll(&byte, 1, SteadyNow() + kLong);
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
    }
    relays.push_back(std::move(socket));
  }
  const RawRank rank(**server, 0, 2);
  rank.Meet();
  // It has proved itself, so its time is not that of strangers.
  milliseconds += 5'000;
  rank.Meet();
  char byte = 0;
  EXPECT_THAT(relays[0].ReadAll(&byte, 1, SteadyNow()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  milliseconds += 115'000;
  rank.Meet();
  EXPECT_THAT(relays[0].ReadAll(&byte, 1, SteadyNow() + kLong),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(TlsJob, WhoHasProvedItselfDoesNotGiveWayToStrangers) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(1);
  ASSERT_OK_AND_ASSIGN(Socket rank, Socket::Connect(server->address(), SteadyNow() + kLong));
  Handshake handshake = {.purpose = kMeetingPurpose, .caller = 0, .context = "1"};
  ASSERT_OK(SayHello(rank, handshake, SteadyNow() + kLong));
  ASSERT_OK(ProveTo(rank, handshake, "secret", "", SteadyNow() + kLong));
  // More than a server of one rank keeps.
  std::vector<Socket> strangers;
  for (int k = 0; k < 200; ++k) {
    ASSERT_OK_AND_ASSIGN(Socket stranger, Socket::Connect(server->address(), SteadyNow() + kLong));
    strangers.push_back(std::move(stranger));
  }
  // The server has taken all of them in once it has dropped so many.
  char byte = 0;
  for (int k = 0; k < 200 - 66; ++k) {
    EXPECT_THAT(strangers[k].ReadAll(&byte, 1, SteadyNow() + kLong),
                StatusIs(absl::StatusCode::kUnavailable));
  }
  ASSERT_OK(rank.FinishTls(TlsSide::kClient, TlsKeyOf(handshake, "secret"), SteadyNow() + kLong));
  ASSERT_OK_AND_ASSIGN(const Frame welcome, ReadFrame(rank, SteadyNow() + kLong));
  EXPECT_EQ(welcome.kind, FrameKind::kWelcome);
}

TEST(TlsJob, AReaderOfHellosWaitsForNobodysTls) {
  const auto prove = [](HelloReader& reader, int caller, const std::string& name,
                        Handshake& handshake) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Socket socket(ends[0]);
    reader.Add(Socket(ends[1]), absl::ZeroDuration());
    handshake = {
        .purpose = kRanksPurpose, .caller = caller, .listener = 1, .context = DigestOf(name)};
    EXPECT_OK(SayHello(socket, handshake, SteadyNow() + kLong));
    EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
    EXPECT_OK(ProveTo(socket, handshake, "secret", name, SteadyNow() + kLong));
    return socket;
  };
  HelloReader reader("secret", 1,
                     [](int, const std::string& name) { return absl::StartsWith(name, "links"); });
  Handshake handshake;
  const Socket silent = prove(reader, 0, "links/a", handshake);
  Socket rank = prove(reader, 3, "links/a", handshake);
  Handshake other;
  const Socket plain = prove(reader, 2, "memory/a", other);
  std::vector<HelloReader::Guest> guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, 2);
  EXPECT_FALSE(guests[0].socket.has_tls());
  ASSERT_OK(rank.StartTls(TlsSide::kClient, TlsKeyOf(handshake, "secret")));
  EXPECT_THAT(rank.ContinueTls(), IsOkAndHolds(false));
  EXPECT_TRUE(reader.Take(absl::ZeroDuration()).empty());
  EXPECT_THAT(rank.ContinueTls(), IsOkAndHolds(true));
  ASSERT_OK(rank.WriteAll("data", SteadyNow() + kLong));
  guests = reader.Take(absl::ZeroDuration());
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_EQ(guests[0].rank, 3);
  std::string data(4, ' ');
  ASSERT_OK(guests[0].socket.ReadAll(data.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(data, "data");
  EXPECT_TRUE(reader.Take(HelloReader::kPatience).empty());
  EXPECT_FALSE(reader.empty());
  EXPECT_TRUE(reader.Take(HelloReader::kTlsPatience).empty());
  EXPECT_TRUE(reader.empty());
}

}  // namespace
}  // namespace parplan
