// The life of a search: who shares it, what ends it, and who hears of it.

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/system/memory_account.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/agent_core.h"
#include "server/core/plan_core.h"
#include "solve/run_search.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

class SearchLife : public CoreTest {};

TEST_F(SearchLife, EqualQuestionsInFlightShareOneSearch) {
  StartMeasured();
  planner.is_open = false;
  std::vector<std::future<absl::StatusOr<SharedPlan>>> answers;
  for (int i = 0; i < 4; ++i) {
    v1::CreatePlanRequest request = Question();
    request.set_job_id(i < 2 ? "one" : "two");
    answers.push_back(AskLater(request, Call()));
  }
  observer.AwaitShared(3);
  planner.is_open = true;
  std::vector<std::string> names;
  for (auto& answer : answers) {
    const absl::StatusOr<SharedPlan> plan = answer.get();
    ASSERT_OK(plan.status());
    names.push_back((*plan)->name());
  }
  EXPECT_EQ(planner.search_count, 1);
  EXPECT_EQ(names[0], names[1]);
  EXPECT_EQ(names[2], names[3]);
  EXPECT_NE(names[0], names[2]);
  EXPECT_EQ(*store().CountPlans("synthetic"), 2);
}

TEST_F(SearchLife, ACallerWhoCancelsLeavesTheOthersTheirSearch) {
  StartMeasured();
  planner.is_open = false;
  const std::shared_ptr<CallContext> leaver = Call();
  auto first = AskLater(Question(), leaver);
  auto second = AskLater(Question(), Call());
  leaver->Cancel();
  EXPECT_THAT(first.get(), StatusIs(absl::StatusCode::kCancelled));
  planner.is_open = true;
  EXPECT_OK(second.get().status());
  EXPECT_EQ(planner.stopped_count, 0);
}

TEST_F(SearchLife, TheLastCallerWhoCancelsEndsTheSearch) {
  StartMeasured();
  planner.is_open = false;
  const std::shared_ptr<CallContext> only = Call();
  auto answer = AskLater(Question(), only);
  observer.AwaitRunning(1);
  only->Cancel();
  EXPECT_THAT(answer.get(), StatusIs(absl::StatusCode::kCancelled));
  core().Drain(absl::InfiniteDuration());
  EXPECT_EQ(*store().CountPlans("synthetic"), 0);
}

TEST_F(SearchLife, ADeadlineEndsTheSearchAndSaysSo) {
  StartMeasured();
  planner.is_open = false;
  auto answer = AskLater(Question(), Call(absl::Seconds(5)));
  observer.AwaitRunning(1);
  clock.Advance(absl::Seconds(5));
  const absl::Status status = answer.get().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(ReasonOf(status), Reason::kSearchTimedOut);
}

TEST_F(SearchLife, TheTimeLimitOfTheOptionsCountsOnTheSteadyClock) {
  StartMeasured();
  planner.is_open = false;
  v1::CreatePlanRequest request = Question();
  request.mutable_spec()->mutable_options()->mutable_search_time_limit()->set_seconds(5);
  auto answer = AskLater(request, Call());
  // The limit counts from here on.
  while (planner.search_count == 0) std::this_thread::yield();
  clock.Jump(absl::Hours(5));
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(ReasonOf(answer.get().status()), Reason::kSearchTimedOut);
}

TEST_F(SearchLife, AFullQueueRefusesAndCachedAnswersAreStillGiven) {
  limits.worker_count = 1;
  limits.max_queue_length = 1;
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  planner.is_open = false;
  const auto other = [this](int batch) {
    v1::CreatePlanRequest request = Question();
    request.mutable_spec()->set_global_batch_size(batch);
    return request;
  };
  auto running = AskLater(other(32), Call());
  observer.AwaitRunning(1);
  observer.AwaitWaiting(0);
  auto waiting = AskLater(other(64), Call());
  EXPECT_EQ(ReasonOf(Ask(other(128)).status()), Reason::kQueueFull);
  EXPECT_OK(Ask(Question()).status());
  planner.is_open = true;
  EXPECT_OK(running.get().status());
  EXPECT_OK(waiting.get().status());
}

TEST_F(SearchLife, ADrainingServerEndsSearchesAndTakesNone) {
  StartMeasured();
  ASSERT_OK(Ask(Question()).status());
  planner.is_open = false;
  v1::CreatePlanRequest other = Question();
  other.mutable_spec()->set_global_batch_size(32);
  auto running = AskLater(other, Call());
  observer.AwaitRunning(1);
  core().Drain(absl::ZeroDuration());
  EXPECT_EQ(ReasonOf(running.get().status()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(Ask(other).status()), Reason::kDraining);
  EXPECT_OK(Ask(Question()).status());
}

TEST_F(SearchLife, ADrainingServerEndsTheStreamsOfAgents) {
  class Peer : public AgentPeer {
   public:
    void Send(v1::ConnectAgentResponse) override {}
    void Close(const absl::Status& status) override { end = status; }
    void Flush() override {}
    absl::Status end;
  };
  StartMeasured();
  const auto peer = std::make_shared<Peer>();
  const std::unique_ptr<AgentSession> session = core().agents().StartSession(peer);
  v1::ConnectAgentRequest request;
  v1::AgentHello& hello = *request.mutable_hello();
  hello.set_node("clusters/lab/nodes/a");
  hello.set_instance_id("one");
  hello.set_host("a");
  hello.set_device_kind("CPU");
  hello.set_device_count(1);
  ASSERT_OK(session->Add(request));
  core().Drain(absl::ZeroDuration());
  EXPECT_EQ(ReasonOf(peer->end), Reason::kDraining);
}

TEST_F(SearchLife, ASearchThatALimitEndedIsNotGivenToOthers) {
  StartMeasured();
  v1::CreatePlanRequest request = Question();
  request.mutable_spec()->mutable_options()->set_max_state_count(1);
  const absl::StatusOr<SharedPlan> limited = Ask(request);
  if (!limited.ok()) {
    EXPECT_EQ(ReasonOf(limited.status()), Reason::kSearchTimedOut);
  }
  ASSERT_OK_AND_ASSIGN(const SharedPlan full, Ask(Question()));
  EXPECT_EQ(planner.search_count, 2);
  EXPECT_NE(full->search().limit(), v1::SEARCH_LIMIT_STATES);
}

TEST_F(SearchLife, ASearchEndsWithTheMemoryThatItGets) {
  limits.worker_count = 2;
  limits.search_memory_bytes = int64_t{300} << 20;
  StartMeasured();
  planner.change_problem = [](const PlanningProblem& problem) {
    MemoryAccount::Count(int64_t{151} << 20);
    return problem;
  };
  // The best plan so far has a note of it, and is not given to others.
  ASSERT_OK_AND_ASSIGN(const SharedPlan found, Ask(Question()));
  EXPECT_THAT(found->notes(), testing::Contains(testing::HasSubstr("150 MiB of memory")));
  EXPECT_EQ(found->search().limit(), v1::SEARCH_LIMIT_MEMORY);
  // Without one the error says which limit it was.
  planner.change_result = [](PlanningResult& result) {
    StoppedEmpty stopped;
    stopped.search = SummaryOf(result);
    result = stopped;
  };
  const absl::Status limited = Ask(Question()).status();
  EXPECT_THAT(limited, StatusIs(absl::StatusCode::kResourceExhausted,
                                testing::HasSubstr("150 MiB of memory")));
  EXPECT_EQ(ReasonOf(limited), Reason::kSearchOutOfMemory);
  EXPECT_EQ(FactOf(limited, "field"), "search_memory");
  EXPECT_EQ(FactOf(limited, "limitBytes"), absl::StrCat(int64_t{150} << 20));
  EXPECT_EQ(GetRetryDelay(limited), std::nullopt) << "it would end in the same way";
  // Nor is the number of devices to ask for known then.
  v1::ShapePlanRequest shape;
  shape.set_parent(Question().parent());
  *shape.mutable_model() = Question().spec().model();
  shape.set_global_batch_size(16);
  v1::DeviceOffer& offer = *shape.add_offers();
  const v1::NodeGroup group = Question().spec().topology().node_groups(0);
  offer.set_device_kind(group.device_kind());
  offer.set_devices_per_node(group.devices_per_node());
  offer.set_device_memory_bytes(group.device_memory_bytes());
  offer.set_min_device_count(group.devices_per_node());
  offer.set_max_device_count(group.devices_per_node());
  EXPECT_EQ(ReasonOf(AskShape(shape).status()), Reason::kSearchOutOfMemory);
  const int search_count = planner.search_count;
  // The next search begins with all of its part.
  planner.change_problem = nullptr;
  planner.change_result = nullptr;
  ASSERT_OK_AND_ASSIGN(const SharedPlan full, Ask(Question()));
  EXPECT_EQ(planner.search_count, search_count + 1);
  EXPECT_THAT(full->notes(), testing::Not(testing::Contains(testing::HasSubstr("memory that"))));
}

TEST_F(SearchLife, EveryWatcherHearsOfTheSearchTheyShare) {
  StartMeasured();
  planner.is_open = false;
  std::atomic<int> heard[2] = {};
  std::promise<void> done[2];
  for (int i = 0; i < 2; ++i) {
    core().plans().SearchPlan(
        Call(), Question(), [&heard, i](const v1::SearchProgress&) { ++heard[i]; },
        [&done, i](const absl::StatusOr<SharedPlan>&) { done[i].set_value(); });
  }
  planner.is_open = true;
  for (auto& end : done) end.get_future().get();
  EXPECT_GT(heard[0], 0);
  EXPECT_EQ(heard[0], heard[1]);
}

}  // namespace
}  // namespace parplan
