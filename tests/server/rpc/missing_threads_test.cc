// Servers on systems with too few threads. The `pthread_create` of this program fails on request.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "planner/find_plan.h"
#include "server/audit/audit_file.h"
#include "server/core/observer.h"
#include "server/core/search_pool.h"
#include "server/rpc/blocking_pool.h"
#include "server/rpc/rpc_server.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using ThreadRoutine = void*(void*);

// Threads that the system still has.
std::atomic<int> threads_left = 1000;
// What the last thread that this thread made was to run.
thread_local ThreadRoutine* last_routine = nullptr;
// What those threads run that alone are counted; null for all.
std::atomic<ThreadRoutine*> counted_routine = nullptr;

}  // namespace
}  // namespace parplan

// Takes the place of that of the system, which it calls, also for std::thread.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): its names are reserved.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  parplan::last_routine = start;
  parplan::ThreadRoutine* const counted = parplan::counted_routine;
  if (counted == nullptr || counted == start) {
    if (parplan::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  }
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

TEST(AuditFile, IsNotOpenedWithoutAThread) {
  const std::string path = MakeTestFolder() + "/audit.jsonl";
  threads_left = 0;
  EXPECT_THAT(AuditFile::Open(path, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("no thread")));
  threads_left = 1000;
  // The file is nobody's.
  EXPECT_OK(AuditFile::Open(path, {}).status());
}

// Returns whether a server starts if the system has so many threads for its parts. Those of gRPC,
// which does not end without them, are not counted.
bool Starts(int available) {
  RpcHarness harness;
  std::thread([] {}).join();
  counted_routine = last_routine;
  threads_left = available;
  bool starts = false;
  try {
    EXPECT_OK(RpcServer::Start(harness.core(), {}).status());
    starts = true;
  } catch (const std::system_error&) {
  }
  threads_left = 1000;
  counted_routine = nullptr;
  return starts;
}

TEST(RpcServer, DoesNotStartWithoutAThreadForEachOfItsParts) {
  EXPECT_FALSE(Starts(0));
  int available = 1;
  while (available < 100 && !Starts(available)) ++available;
  EXPECT_TRUE(Starts(available));
  EXPECT_FALSE(Starts(available - 1));
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

// A search that does not end by itself is waited for only after its call was cancelled.
TEST(RpcServer, CancelsCallsWithoutAnyThread) {
  absl::Notification begun;
  absl::Notification go_on;
  RpcHarness harness(
      RpcHarness::TestLimits(),
      [&](const PlanningProblem& problem, absl::string_view planner, const SearchControl& control) {
        if (!begun.HasBeenNotified()) begun.Notify();
        go_on.WaitForNotification();
        return FindPlan(problem, planner, control);
      });
  ASSERT_OK(harness.UploadSmallProfile().status());
  std::thread client([&] {
    const auto stub = v1::PlanService::NewStub(harness.channel());
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    v1::Plan plan;
    const grpc::Status status = stub->CreatePlan(&context, SmallQuestion(), &plan);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    if (!begun.HasBeenNotified()) begun.Notify();
    go_on.Notify();
  });
  begun.WaitForNotification();
  threads_left = 0;
  harness.server().Drain(absl::ZeroDuration(), absl::ZeroDuration());
  threads_left = 1000;
  client.join();
}

}  // namespace
}  // namespace parplan
