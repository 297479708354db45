// A rank whose process dies while others wait for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// A process of its own that dies while the others wait for it.
void RunAndDie(const std::string& address, int rank, int world_size, TransportKind transport) {
  absl::StatusOr<std::unique_ptr<JobFabric>> fabric = JobFabric::Join({.rendezvous = address,
                                                                       .token = "secret",
                                                                       .rank = rank,
                                                                       .world_size = world_size,
                                                                       .transport = transport});
  if (!fabric.ok()) ::_exit(2);
  absl::StatusOr<std::unique_ptr<Communicator>> all = (*fabric)->MakeGroup("all", {0, 1, 2});
  if (!all.ok() || !(*all)->Barrier().ok()) ::_exit(3);
  ::raise(SIGKILL);
}

class LostRank : public testing::TestWithParam<TransportKind> {};

TEST_P(LostRank, EndsTheWaitOfTheOthersAndNamesIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot follow a process that forks among threads";
#endif
  // The child is forked while this process has one thread, and receives the address through a pipe.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char address[64] = {};
    if (::read(ends[0], address, sizeof(address) - 1) <= 0) ::_exit(1);
    RunAndDie(address, 2, 3, GetParam());
    ::_exit(4);
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RendezvousServer> server,
                       RendezvousServer::Start({.token = "secret", .world_size = 3}));
  const std::string address = server->address();
  ASSERT_EQ(::write(ends[1], address.data(), address.size()), static_cast<ssize_t>(address.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<JobFabric> fabric,
                           JobFabric::Join({.rendezvous = address,
                                            .token = "secret",
                                            .rank = rank,
                                            .world_size = 3,
                                            .transport = GetParam()}));
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> all,
                           fabric->MakeGroup("all", {0, 1, 2}));
      // The other may be lost while these two still meet.
      absl::Status status = all->Barrier();
      std::vector<float> data(1'000'000, 1.0f);
      while (status.ok()) status = all->AllReduce(ElementType::kFloat32, data.data(), 1'000'000);
      // By the rendezvous, or first by the connection to it.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   AnyOf(HasSubstr("rank 2 is lost"), HasSubstr("with rank"))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  int exit = 0;
  ASSERT_EQ(::waitpid(child, &exit, 0), child);
  EXPECT_TRUE(WIFSIGNALED(exit)) << exit;
  ::close(ends[0]);
  ::close(ends[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, LostRank,
                         testing::Values(TransportKind::kAutomatic, TransportKind::kTcp),
                         [](const auto& info) {
                           return std::string(info.param == TransportKind::kTcp ? "Tcp"
                                                                                : "SharedMemory");
                         });

}  // namespace
}  // namespace parplan
