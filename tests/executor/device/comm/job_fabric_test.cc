// Tests what a rank accepts from those who say that they are another rank of its group, and which
// groups it makes.

#include "executor/device/comm/job_fabric.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/local_socket.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/comm/shared_memory_links.h"
#include "executor/device/comm/socket.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// A job of two, whose rank 1 makes a group with rank 0, which is the test.
class GroupWithImpostor {
 public:
  explicit GroupWithImpostor(TransportKind transport,
                             absl::Duration join_timeout = absl::Minutes(2),
                             absl::Duration connect_patience = absl::Seconds(10)) {
    absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
        RendezvousServer::Start({.token = "secret", .world_size = 2});
    EXPECT_OK(server);
    server_ = *std::move(server);
    rank_ = std::make_unique<RawRank>(*server_, 0, 2);
    other_ = std::thread([this, transport, join_timeout, connect_patience] {
      const auto fabric = JobFabric::Join({.rendezvous = server_->address(),
                                           .token = "secret",
                                           .rank = 1,
                                           .world_size = 2,
                                           .transport = transport,
                                           .join_timeout = join_timeout,
                                           .connect_patience = connect_patience});
      joined_.set_value();
      ASSERT_OK(fabric);
      status_ = (*fabric)->MakeGroup("data", {0, 1}).status();
    });
    rank_->Write({.kind = FrameKind::kGet, .number = 1, .key = RankFact(1)});
    machine_ = std::string(rank_->Read().value);
    machine_.resize(machine_.find(' '));
  }
  ~GroupWithImpostor() {
    if (other_.joinable()) other_.join();
  }

  // Says on which address rank 0 listens, and under which name it hands over the memory.
  void Publish(const std::string& address, const std::string& memory) {
    rank_->Write({.kind = FrameKind::kSet,
                  .key = RankFact(0),
                  .value = absl::StrCat(machine_, " ", address)});
    rank_->Write({.kind = FrameKind::kSet, .key = "memory/data:0,1#0", .value = memory});
  }
  // Has rank 0 end the job once rank 1 makes the group.
  void Abort(const std::string& why) {
    joined_.get_future().wait();
    rank_->Write({.kind = FrameKind::kAbort, .value = why});
  }
  // Returns what became of the group at rank 1.
  absl::Status Result() {
    other_.join();
    return status_;
  }

 private:
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<RawRank> rank_;
  std::string machine_;
  std::promise<void> joined_;
  std::thread other_;
  absl::Status status_;
};

// Answers the hello of rank 1 as a listener with `token` that gives its rank as `listener`. Returns
// the next frame of rank 1.
Frame Challenge(const Socket& guest, const std::string& token, int listener = 0) {
  absl::StatusOr<Frame> frame = ReadFrame(guest, SteadyNow() + kLong);
  EXPECT_OK(frame);
  Handshake handshake = {.purpose = kRanksPurpose, .listener = listener};
  const absl::StatusOr<Frame> challenge = ChallengeTo(*frame, handshake, token);
  EXPECT_OK(challenge);
  EXPECT_OK(WriteFrame(guest, *challenge, SteadyNow() + kLong));
  frame = ReadFrame(guest, SteadyNow() + kLong);
  EXPECT_OK(frame);
  return *std::move(frame);
}

// Has `hand_over` answer rank 1, which comes for the memory of the group. Returns what rank 1 makes
// of it.
absl::Status HandOver(const std::function<void(const Socket& guest)>& hand_over) {
  const absl::StatusOr<LocalListener> listener = LocalListener::Open();
  EXPECT_OK(listener);
  GroupWithImpostor group(TransportKind::kAutomatic);
  group.Publish("127.0.0.1:1", listener->name());
  pollfd interest = {.fd = listener->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&interest, 1, static_cast<int>(absl::ToInt64Milliseconds(kLong))), 1);
  const absl::StatusOr<Socket> guest = listener->Accept();
  EXPECT_OK(guest);
  hand_over(*guest);
  return group.Result();
}

TEST(JobFabric, ARankTakesTheMemoryOfARankThatProvesItself) {
  ASSERT_OK_AND_ASSIGN(const auto segment, SharedSegment::Make(2));
  EXPECT_OK(HandOver([&](const Socket& guest) {
    EXPECT_EQ(Challenge(guest, "secret").kind, FrameKind::kProof);
    EXPECT_OK(SendDescriptor(guest, segment->descriptor(), SteadyNow() + kLong));
  }));
}

TEST(JobFabric, ARankTakesNoOtherMemory) {
  const FileDescriptor unsealed(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_OK_AND_ASSIGN(const auto larger, SharedSegment::Make(3));
  const FileDescriptor device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (const int descriptor : {unsealed.get(), larger->descriptor(), device.get()}) {
    EXPECT_THAT(HandOver([&](const Socket& guest) {
                  EXPECT_EQ(Challenge(guest, "secret").kind, FrameKind::kProof);
                  EXPECT_OK(SendDescriptor(guest, descriptor, SteadyNow() + kLong));
                }),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("memory of a group")));
  }
  // A word in place of memory.
  EXPECT_THAT(HandOver([](const Socket& guest) {
                EXPECT_EQ(Challenge(guest, "secret").kind, FrameKind::kProof);
                EXPECT_OK(guest.WriteAll("d", SteadyNow() + kLong));
              }),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("one file")));
}

TEST(JobFabric, ARankTakesNoMemoryFromAnImpostor) {
  ASSERT_OK_AND_ASSIGN(const auto segment, SharedSegment::Make(2));
  for (const auto& [token, listener] :
       std::vector<std::pair<std::string, int>>{{"guess", 0}, {"secret", 1}}) {
    const absl::Status status =
        HandOver([&, &token = token, &listener = listener](const Socket& guest) {
          EXPECT_EQ(Challenge(guest, token, listener).kind, FrameKind::kRefused);
          // It hears nothing more, whatever it sends.
          (void)SendDescriptor(guest, segment->descriptor(), SteadyNow() + kLong);
          EXPECT_FALSE(ReadFrame(guest, SteadyNow() + kLong).ok());
        });
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("wrong token")));
  }
}

TEST(JobFabric, ARankSaysItsTokenToNobody) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  GroupWithImpostor group(TransportKind::kTcp);
  group.Publish(absl::StrCat("127.0.0.1:", listener.port()), "");
  ASSERT_OK_AND_ASSIGN(const Socket guest, listener.Accept(SteadyNow() + kLong));
  ASSERT_OK_AND_ASSIGN(const Frame hello, ReadFrame(guest, SteadyNow() + kLong));
  EXPECT_EQ(hello.kind, FrameKind::kHello);
  EXPECT_EQ(hello.key.size(), kNonceSize);
  EXPECT_EQ(hello.value, DigestOf("links/data:0,1#0"));
  // Its own words, returned to it.
  ASSERT_OK(WriteFrame(guest, {.kind = FrameKind::kChallenge, .key = hello.key, .value = hello.key},
                       SteadyNow() + kLong));
  ASSERT_OK_AND_ASSIGN(const Frame answer, ReadFrame(guest, SteadyNow() + kLong));
  EXPECT_EQ(answer.kind, FrameKind::kRefused);
  EXPECT_EQ(absl::StrCat(answer.key, answer.value), "");
  EXPECT_THAT(group.Result(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("data:0,1#0 at rank 0")));
}

// Fills the queue of a listener at `address`, so that the next connection is never made. Returns
// the listener and the connections in its queue, which are to be kept.
std::vector<Socket> FillQueue(std::string& address) {
  std::vector<Socket> sockets;
  sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(own);
  auto* const name = reinterpret_cast<sockaddr*>(&own);
  EXPECT_EQ(::bind(sockets[0].descriptor(), name, size), 0);
  EXPECT_EQ(::listen(sockets[0].descriptor(), 0), 0);
  EXPECT_EQ(::getsockname(sockets[0].descriptor(), name, &size), 0);
  address = absl::StrCat("127.0.0.1:", ntohs(own.sin_port));
  bool is_through = true;
  while (is_through) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(sockets.back().descriptor(), name, size);
    pollfd interest = {.fd = sockets.back().descriptor(), .events = POLLOUT, .revents = 0};
    is_through = ::poll(&interest, 1, /*timeout=*/200) == 1;
  }
  return sockets;
}

// Else a rank would try for 2 minutes to reach one that is cut off from it alone.
TEST(JobFabric, AJobThatHasFailedEndsTheTriesToReachARank) {
  std::string address;
  const std::vector<Socket> queue = FillQueue(address);
  GroupWithImpostor group(TransportKind::kTcp, /*join_timeout=*/absl::Hours(24),
                          /*connect_patience=*/absl::Milliseconds(50));
  group.Publish(address, "");
  // Some tries first, as a rule.
  absl::SleepFor(absl::Milliseconds(200));
  group.Abort("the disk is full");
  EXPECT_THAT(group.Result(), StatusIs(absl::StatusCode::kAborted, HasSubstr("disk is full")));
}

// It waited for the token of the job before, say; else limits would add up.
TEST(JobFabric, AWaitBeforeTheJobCountsForItsLimit) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RendezvousServer> server,
                       RendezvousServer::Start({.token = "secret", .world_size = 2}));
  const absl::Duration patience = absl::Hours(24);
  EXPECT_THAT(JobFabric::Join({.rendezvous = server->address(),
                               .token = "secret",
                               .rank = 1,
                               .world_size = 2,
                               .join_timeout = patience,
                               .join_start = SteadyNow() - patience + absl::Milliseconds(500)})
                  .status(),
              StatusIs(testing::AnyOf(absl::StatusCode::kDeadlineExceeded,
                                      absl::StatusCode::kUnavailable)));
}

// The other rank may have to drop it for those of many strangers.
TEST(JobFabric, ARankThatIsDroppedComesAgain) {
  ASSERT_OK_AND_ASSIGN(const Listener listener, Listener::Open("127.0.0.1", 0));
  GroupWithImpostor group(TransportKind::kTcp);
  group.Publish(absl::StrCat("127.0.0.1:", listener.port()), "");
  {
    ASSERT_OK_AND_ASSIGN(const Socket dropped, listener.Accept(SteadyNow() + kLong));
    ASSERT_OK(ReadFrame(dropped, SteadyNow() + kLong).status());
  }
  // The rank asks the rendezvous before it tries again.
  ASSERT_OK_AND_ASSIGN(const Socket guest, listener.Accept(SteadyNow() + kLong));
  const Frame proof = Challenge(guest, "secret");
  EXPECT_EQ(proof.kind, FrameKind::kProof);
  EXPECT_EQ(proof.value, "links/data:0,1#0");
  EXPECT_OK(group.Result());
}

// The id is as long as the list of 2,000 ranks; so many ranks would need as many connections.
TEST(JobFabricGroups, MayHaveALongId) {
  RunRanks(2, {.transport = TransportKind::kTcp}, [](JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> group,
                         fabric.MakeGroup(std::string(9'000, 'g'), {0, 1}));
    EXPECT_OK(group->Barrier());
  });
}

TEST(JobFabricGroups, RefusesRanksThatAreNotOfTheJob) {
  RunRanks(2, {}, [](JobFabric& fabric) {
    for (const std::vector<int>& ranks :
         {std::vector<int>{1 - fabric.rank()}, {0, 1, 2}, {0, 0, 1}, {-1, 0, 1}, {}}) {
      EXPECT_THAT(fabric.MakeGroup("wrong", ranks).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("distinct ranks")));
    }
  });
}

}  // namespace
}  // namespace parplan
