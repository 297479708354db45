// Tests of systems with too few threads. The `pthread_create` of this program fails on request.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/system/start_thread.h"
#include "base/system/worker_threads.h"

namespace parplan {
namespace {

// Threads that the system still has.
std::atomic<int> threads_left = 1000;

}  // namespace
}  // namespace parplan

// Takes the place of that of the system, which it calls, also for std::thread.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): its names are reserved.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (parplan::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  const auto create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}

namespace parplan {
namespace {

TEST(WorkerThreads, ThrowWithoutAThreadForAnyHelper) {
  for (const int available : {0, 1, 2}) {
    threads_left = available;
    EXPECT_THROW(WorkerThreads(3), std::system_error) << available;
    EXPECT_LT(threads_left, 0);
  }
  threads_left = 3;
  WorkerThreads threads(3);
  std::atomic<int> done = 0;
  threads.Run(100, [&done](int64_t) { ++done; });
  EXPECT_EQ(done, 100);
}

TEST(StartThread, RunsNothingWithoutAThread) {
  bool has_run = false;
  threads_left = 0;
  EXPECT_FALSE(StartThread([&has_run] { has_run = true; }).joinable());
  EXPECT_FALSE(has_run);
  threads_left = 1;
  StartThread([&has_run] { has_run = true; }).join();
  EXPECT_TRUE(has_run);
}

}  // namespace
}  // namespace parplan
