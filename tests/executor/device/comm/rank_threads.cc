#include "tests/executor/device/comm/rank_threads.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "executor/device/comm/rendezvous_server.h"

namespace parplan {

void RunRanks(int world_size, JobFabricOptions options,
              const std::function<void(JobFabric&)>& work) {
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::Start({.token = "secret", .world_size = world_size});
  ASSERT_TRUE(server.ok()) << server.status();
  options.rendezvous = (*server)->address();
  options.token = "secret";
  options.world_size = world_size;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      JobFabricOptions own = options;
      own.rank = rank;
      absl::StatusOr<std::unique_ptr<JobFabric>> fabric = JobFabric::Join(std::move(own));
      ASSERT_TRUE(fabric.ok()) << fabric.status();
      work(**fabric);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace parplan
