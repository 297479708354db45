// Tests TLS on the connections between the ranks of a job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Rank 1 of two, a real one, makes a group with rank 0, which is the test: what it receives there
// is altered or not. Returns the result of a broadcast of eight bytes from rank 0.
absl::Status BroadcastThrough(const std::function<void(std::string&)>& alter, std::string* heard) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(2);
  const RawRank rank(*server, 0, 2);
  const absl::StatusOr<Listener> listener = Listener::Open("127.0.0.1", 0);
  EXPECT_OK(listener);
  // Another boot, so another node.
  rank.Write({.kind = FrameKind::kSet,
              .key = RankFact(0),
              .value = absl::StrCat("other/boot 127.0.0.1:", listener->port())});
  absl::Status result;
  std::thread other([&] {
    const auto fabric = JobFabric::Join(
        {.rendezvous = server->address(), .token = "secret", .rank = 1, .world_size = 2});
    ASSERT_OK(fabric);
    const auto group = (*fabric)->MakeGroup("data", {0, 1});
    ASSERT_OK(group);
    std::string data(8, ' ');
    result = (*group)->Broadcast(ElementType::kByte, data.data(), 8, /*root=*/0);
    *heard = data;
  });
  absl::StatusOr<Socket> guest = listener->Accept(SteadyNow() + kLong);
  EXPECT_OK(guest);
  const absl::StatusOr<Frame> hello = ReadFrame(*guest, SteadyNow() + kLong);
  EXPECT_OK(hello);
  Handshake handshake = {.purpose = kRanksPurpose, .listener = 0};
  const absl::StatusOr<Frame> challenge = ChallengeTo(*hello, handshake, "secret");
  EXPECT_OK(challenge);
  EXPECT_OK(WriteFrame(*guest, *challenge, SteadyNow() + kLong));
  EXPECT_OK(ReadFrame(*guest, SteadyNow() + kLong));
  // TLS on a pair of sockets, whose other end is what comes from and goes to rank 1.
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Socket own(ends[0]);
  const Socket wire(ends[1]);
  EXPECT_OK(own.StartTls(TlsSide::kServer, TlsKeyOf(handshake, "secret")));
  std::array<char, 1 << 14> bytes;
  const auto carry = [&](const Socket& from, const Socket& to) {
    const absl::StatusOr<int64_t> count = from.Receive(bytes.data(), bytes.size());
    EXPECT_OK(count);
    EXPECT_OK(to.WriteAll(absl::string_view(bytes.data(), *count), SteadyNow() + kLong));
  };
  absl::StatusOr<bool> is_done = own.ContinueTls();
  while (is_done.ok() && !*is_done) {
    carry(wire, *guest);
    pollfd interest = {.fd = guest->descriptor(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&interest, 1, /*timeout=*/-1), 1);
    carry(*guest, wire);
    is_done = own.ContinueTls();
  }
  EXPECT_THAT(is_done, IsOkAndHolds(true));
  // The message, as CpuTask has it: operation, type and reduction; the count; the bytes.
  std::string message(24, '\0');
  const uint64_t head = (static_cast<uint64_t>(Operation::kBroadcast) << 16) |
                        (static_cast<uint64_t>(ElementType::kByte) << 8);
  const uint64_t count = 8;
  std::memcpy(message.data(), &head, 8);
  std::memcpy(message.data() + 8, &count, 8);
  std::memcpy(message.data() + 16, "12345678", 8);
  EXPECT_OK(own.WriteAll(message, SteadyNow() + kLong));
  const absl::StatusOr<int64_t> size = wire.Receive(bytes.data(), bytes.size());
  EXPECT_OK(size);
  std::string record(bytes.data(), *size);
  EXPECT_THAT(record, Not(HasSubstr("12345678")));
  if (alter) alter(record);
  EXPECT_OK(guest->WriteAll(record, SteadyNow() + kLong));
  other.join();
  return result;
}

TEST(TlsJob, AByteThatIsAlteredBetweenTwoNodesEndsTheOperation) {
  std::string heard;
  EXPECT_OK(BroadcastThrough(nullptr, &heard));
  EXPECT_EQ(heard, "12345678");
  for (const size_t place : {size_t{5}, size_t{21}, size_t{40}}) {
    EXPECT_THAT(BroadcastThrough([place](std::string& record) { record[place] ^= 1; }, &heard),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("with rank 0"), HasSubstr("altered on its way"))))
        << place;
    EXPECT_EQ(heard, std::string(8, ' '));
  }
}

// Rank 0 of two, a real one, accepts the connection of rank 1, which is the test, for a group.
// Returns whether it has TLS, and the bytes on it are those of a broadcast from rank 0.
bool ListensWithTls(bool is_same_machine, TlsLinks tls_links) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(2);
  const RawRank rank(*server, 1, 2);
  std::thread other([&] {
    const auto fabric = JobFabric::Join({.rendezvous = server->address(),
                                         .token = "secret",
                                         .rank = 0,
                                         .world_size = 2,
                                         .transport = TransportKind::kTcp,
                                         .tls_links = tls_links});
    ASSERT_OK(fabric);
    const auto group = (*fabric)->MakeGroup("data", {0, 1});
    ASSERT_OK(group);
    std::string data = "12345678";
    EXPECT_OK((*group)->Broadcast(ElementType::kByte, data.data(), 8, /*root=*/0));
  });
  rank.Write({.kind = FrameKind::kGet, .number = 1, .key = RankFact(0)});
  const std::pair<std::string, std::string> place = absl::StrSplit(rank.Read().value, ' ');
  rank.Write({.kind = FrameKind::kSet,
              .key = RankFact(1),
              .value = absl::StrCat(is_same_machine ? place.first : "other/boot", " 127.0.0.1:1")});
  absl::StatusOr<Socket> socket = Socket::Connect(place.second, SteadyNow() + kLong);
  EXPECT_OK(socket);
  const std::string name = "links/data:0,1#0";
  Handshake handshake = {
      .purpose = kRanksPurpose, .caller = 1, .listener = 0, .context = DigestOf(name)};
  EXPECT_OK(SayHello(*socket, handshake, SteadyNow() + kLong));
  EXPECT_OK(ProveTo(*socket, handshake, "secret", name, SteadyNow() + kLong));
  // Rank 0 writes first only in plain; the client of TLS does otherwise.
  const bool has_tls =
      tls_links == TlsLinks::kAll || (tls_links == TlsLinks::kBetweenNodes && !is_same_machine);
  bool is_secured = false;
  if (has_tls) {
    is_secured =
        socket->FinishTls(TlsSide::kClient, TlsKeyOf(handshake, "secret"), SteadyNow() + kLong)
            .ok();
    EXPECT_TRUE(is_secured);
  }
  std::string message(24, ' ');
  EXPECT_OK(socket->ReadAll(message.data(), 24, SteadyNow() + kLong));
  EXPECT_EQ(message.substr(16), "12345678");
  other.join();
  return is_secured;
}

TEST(TlsJob, AListenerHasTlsWhereTheSettingWantsIt) {
  EXPECT_TRUE(ListensWithTls(/*is_same_machine=*/false, TlsLinks::kBetweenNodes));
  EXPECT_TRUE(ListensWithTls(/*is_same_machine=*/true, TlsLinks::kAll));
  EXPECT_FALSE(ListensWithTls(/*is_same_machine=*/true, TlsLinks::kBetweenNodes));
  EXPECT_FALSE(ListensWithTls(/*is_same_machine=*/false, TlsLinks::kNone));
}

TEST(TlsJob, RanksThatDoNotAgreeOnTlsEndTheJob) {
  const std::unique_ptr<RendezvousServer> server = ServeJob(2);
  std::array<absl::Status, 2> results;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto fabric =
          JobFabric::Join({.rendezvous = server->address(),
                           .token = "secret",
                           .rank = rank,
                           .world_size = 2,
                           .host = "127.0.0.2",
                           .transport = TransportKind::kTcp,
                           .tls_links = rank == 0 ? TlsLinks::kNone : TlsLinks::kBetweenNodes});
      results[rank] = fabric.status();
      if (fabric.ok()) results[rank] = (*fabric)->MakeGroup("data", {0, 1}).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    EXPECT_THAT(result,
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("PARPLAN_TLS_LINKS"), HasSubstr("on host 127.0.0.2"))));
  }
}

// Runs operations of four ranks on two hosts, which are two addresses of this one. Returns what
// each rank has then.
std::vector<std::vector<float>> ResultsOf(TransportKind transport, TlsLinks tls_links) {
  constexpr int kRanks = 4;
  // More than the buffers of a connection hold.
  constexpr int kCount = 150'001;
  const std::unique_ptr<RendezvousServer> server = ServeJob(kRanks);
  std::vector<std::vector<float>> results(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<JobFabric> fabric,
                           JobFabric::Join({.rendezvous = server->address(),
                                            .token = "secret",
                                            .rank = rank,
                                            .world_size = kRanks,
                                            .host = rank < 2 ? "127.0.0.1" : "127.0.0.2",
                                            .transport = transport,
                                            .tls_links = tls_links,
                                            .spin_count = 50}));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> all,
                           fabric->MakeGroup("all", {0, 1, 2, 3}));
      std::vector<float> data(kCount);
      for (int k = 0; k < kCount; ++k) {
        data[k] = 1.0f / static_cast<float>(1 + (k * 7919 + rank * 104'729) % 100'003);
      }
      ASSERT_OK(all->AllReduce(ElementType::kFloat32, data.data(), kCount));
      std::vector<float> gathered(size_t{kRanks} * kCount);
      ASSERT_OK(all->AllGather(ElementType::kFloat32, data.data(), gathered.data(), kCount));
      ASSERT_OK(all->Broadcast(ElementType::kFloat32, data.data(), 3, /*root=*/2));
      std::vector<float> part(kCount);
      ASSERT_OK(all->ReduceScatter(ElementType::kFloat32, gathered.data(), part.data(), kCount));
      results[rank] = data;
      results[rank].insert(results[rank].end(), gathered.begin(), gathered.end());
      results[rank].insert(results[rank].end(), part.begin(), part.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(TlsJob, TwoHostsComputeWhatSharedMemoryComputes) {
  const std::vector<std::vector<float>> expected =
      ResultsOf(TransportKind::kAutomatic, TlsLinks::kBetweenNodes);
  EXPECT_EQ(expected[0].size(), size_t{6} * 150'001);
  EXPECT_TRUE(ResultsOf(TransportKind::kTcp, TlsLinks::kAll) == expected);
  EXPECT_TRUE(ResultsOf(TransportKind::kTcp, TlsLinks::kNone) == expected);
}

}  // namespace
}  // namespace parplan
