// Servers on systems with too few threads. The `pthread_create` of this program fails on request.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "server/core/observer.h"
#include "server/core/search_pool.h"
#include "server/rpc/blocking_pool.h"
#include "server/rpc/rpc_server.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Threads that the system still has.
std::atomic<int> threads_left = 1000;

}  // namespace
}  // namespace parplan

// Takes the place of that of the system, which it calls, also for std::thread.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (parplan::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  const auto create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}

namespace parplan {
namespace {

TEST(BlockingPool, ThrowsWithoutAThreadForAnyOfThem) {
  for (const int available : {0, 1, 3}) {
    threads_left = available;
    EXPECT_THROW(BlockingPool(4), std::system_error) << available;
  }
  threads_left = 1000;
}

TEST(SearchPool, ThrowsWithoutAThreadForAnyWorker) {
  Limits limits;
  limits.worker_count = 3;
  // Two helpers come first.
  for (const int available : {0, 1, 2, 3, 4}) {
    threads_left = available;
    EXPECT_THROW(SearchPool(limits, Observer::Null()), std::system_error) << available;
  }
  threads_left = 1000;
}

// It has a thread for alarms, 12 for its pools and one that watches credentials.
TEST(RpcServer, DoesNotStartWithoutAThreadForEachOfItsParts) {
  RpcHarness harness;
  for (int available = 0; available < 14; ++available) {
    threads_left = available;
    EXPECT_THROW(RpcServer::Start(harness.core(), {}).status().IgnoreError(), std::system_error)
        << available;
  }
  threads_left = 1000;
}

// A drain that waits for quiet connections and gives searches time has two threads more.
TEST(RpcServer, DrainsWithoutAnyThread) {
  RpcHarness harness;
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(harness.core(), {});
  ASSERT_OK(server.status());
  threads_left = 0;
  (*server)->Drain(absl::ZeroDuration(), absl::Hours(1));
  EXPECT_LT(threads_left, 0);
  threads_left = 1000;
}

}  // namespace
}  // namespace parplan
