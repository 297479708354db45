// The parts that know nothing of plans: calls, caches, flights, the pool.

#include <condition_variable>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/system/memory_account.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/call_context.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/search_pool.h"
#include "server/core/shared_search.h"
#include "server/core/single_flight.h"
#include "tests/server/core/fakes.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CallContext, CancelRunsEachCallbackOnce) {
  const auto context = CallContext::Create("id", absl::InfiniteDuration());
  int count = 0;
  context->OnCancel([&count] { ++count; });
  context->Cancel();
  context->Cancel();
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(context->cancelled());
}

TEST(CallContext, ACallbackOfACancelledCallRunsAtOnce) {
  const auto context = CallContext::Create("id", absl::InfiniteDuration());
  context->Cancel();
  bool ran = false;
  context->OnCancel([&ran] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(CallContext, ARemovedCallbackDoesNotRun) {
  const auto context = CallContext::Create("id", absl::InfiniteDuration());
  bool ran = false;
  context->RemoveOnCancel(context->OnCancel([&ran] { ran = true; }));
  context->Cancel();
  EXPECT_FALSE(ran);
}

TEST(CallContext, SettingTheTimeOfDayMovesNoDeadline) {
  FakeClock clock;
  const auto context = CallContext::Create("id", absl::Seconds(10), clock);
  clock.Jump(absl::Hours(24));
  EXPECT_LT(clock.Steady(), context->deadline());
  clock.Jump(-absl::Hours(48));
  clock.Advance(absl::Seconds(10));
  EXPECT_GE(clock.Steady(), context->deadline());
}

TEST(LruCache, ForgetsWhatWasNotUsedForLongest) {
  LruCache<int> cache(3 * 300);
  cache.Put("a", 1, 80);
  cache.Put("b", 2, 80);
  cache.Put("c", 3, 80);
  EXPECT_TRUE(cache.Get("a").has_value());
  cache.Put("d", 4, 80);
  EXPECT_FALSE(cache.Get("b").has_value());
  EXPECT_EQ(cache.Get("a"), 1);
  EXPECT_EQ(cache.Get("c"), 3);
  EXPECT_EQ(cache.Get("d"), 4);
}

TEST(LruCache, StaysWithinItsBytesAndTakesNothingLargerThanItself) {
  LruCache<int> cache(1000);
  for (int i = 0; i < 100; ++i) cache.Put(std::to_string(i), i, 50);
  // An entry of 50 bytes has about 250 with its key and the containers.
  int kept = 0;
  for (int i = 0; i < 100; ++i) kept += cache.Get(std::to_string(i)).has_value() ? 1 : 0;
  EXPECT_EQ(kept, 3);
  cache.Put("whole", 1, 2000);
  EXPECT_FALSE(cache.Get("whole").has_value());
}

TEST(LruCache, PutReplaces) {
  LruCache<int> cache(1000);
  // There is room for two entries of this size, not for three.
  cache.Put("a", 1, 250);
  cache.Put("a", 2, 250);
  cache.Put("b", 3, 250);
  EXPECT_EQ(cache.Get("a"), 2);
  EXPECT_EQ(cache.Get("b"), 3);
}

// Flights with the answer kept in the hands of the test.
class SingleFlightTest : public testing::Test {
 protected:
  using FlightPointer = std::shared_ptr<Flight<int>>;

  // Asks `key`; what the caller hears is put into the list it gives.
  std::shared_ptr<std::vector<absl::StatusOr<int>>> Ask(
      const std::string& key, const std::shared_ptr<CallContext>& context) {
    auto heard = std::make_shared<std::vector<absl::StatusOr<int>>>();
    flights_.Join(
        key, context, nullptr,
        [heard](const absl::StatusOr<int>& answer) { heard->push_back(answer); },
        [this](const FlightPointer& flight) {
          started.push_back(flight);
          return start_status;
        });
    return heard;
  }

  std::shared_ptr<CallContext> Call(absl::Duration time_left = absl::InfiniteDuration()) {
    return CallContext::Create("id", time_left, clock);
  }

  FakeClock clock;
  absl::Status start_status;
  std::vector<FlightPointer> started;

 private:
  SingleFlight<int> flights_{clock};
};

TEST_F(SingleFlightTest, EqualQuestionsShareOneFlightAndOthersDoNot) {
  const auto first = Ask("a", Call());
  const auto second = Ask("a", Call());
  const auto other = Ask("b", Call());
  ASSERT_EQ(started.size(), 2u);
  started[0]->Finish(7);
  EXPECT_THAT(*first, ElementsAre(IsOkAndHolds(7)));
  EXPECT_THAT(*second, ElementsAre(IsOkAndHolds(7)));
  EXPECT_THAT(*other, IsEmpty());
}

TEST_F(SingleFlightTest, AFinishedFlightTakesNobody) {
  Ask("a", Call());
  started[0]->Finish(7);
  const auto later = Ask("a", Call());
  EXPECT_EQ(started.size(), 2u);
  EXPECT_THAT(*later, IsEmpty());
}

// The first lost its place to the second before it could say that it has one.
TEST_F(SingleFlightTest, WhoeverSharesIsReportedToTheLaterSearch) {
  Ask("a", Call());
  int of_first = 0;
  int of_second = 0;
  started[0]->OnShared(2, [&of_second](const std::string&) { ++of_second; });
  started[0]->OnShared(1, [&of_first](const std::string&) { ++of_first; });
  EXPECT_EQ(of_second, 1);
  Ask("a", Call());
  EXPECT_EQ(of_second, 2);
  EXPECT_EQ(of_first, 0);
}

TEST_F(SingleFlightTest, WhoLeavesStopsNobodyElse) {
  const auto leaver = Call();
  const auto first = Ask("a", leaver);
  const auto second = Ask("a", Call());
  leaver->Cancel();
  EXPECT_THAT(*first, ElementsAre(StatusIs(absl::StatusCode::kCancelled)));
  EXPECT_FALSE(started[0]->ShouldStop());
  started[0]->Finish(7);
  EXPECT_THAT(*second, ElementsAre(IsOkAndHolds(7)));
  EXPECT_EQ(first->size(), 1u);
}

TEST_F(SingleFlightTest, TheLastCallerWhoLeavesStopsTheWork) {
  const auto one = Call();
  const auto two = Call();
  Ask("a", one);
  Ask("a", two);
  one->Cancel();
  EXPECT_FALSE(started[0]->ShouldStop());
  two->Cancel();
  EXPECT_TRUE(started[0]->ShouldStop());
  Ask("a", Call());
  EXPECT_EQ(started.size(), 2u);
}

TEST_F(SingleFlightTest, ACallerWhoseDeadlinePassesIsToldWhileTheOthersWait) {
  const auto hasty = Ask("a", Call(absl::Seconds(1)));
  const auto patient = Ask("a", Call(absl::Seconds(100)));
  clock.Advance(absl::Seconds(2));
  EXPECT_FALSE(started[0]->ShouldStop());
  EXPECT_THAT(*hasty, ElementsAre(StatusIs(absl::StatusCode::kDeadlineExceeded)));
  EXPECT_THAT(*patient, IsEmpty());
}

TEST_F(SingleFlightTest, StopsALittleBeforeTheLastDeadlineAndAnswersThem) {
  const auto only = Ask("a", Call(absl::Seconds(10)));
  clock.Advance(absl::Milliseconds(9400));
  EXPECT_FALSE(started[0]->ShouldStop());
  clock.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(started[0]->ShouldStop());
  // A caller with a longer limit gets a flight of its own.
  const auto patient = Ask("a", Call());
  ASSERT_EQ(started.size(), 2u);
  started[0]->Finish(7);
  EXPECT_THAT(*only, ElementsAre(IsOkAndHolds(7)));
  EXPECT_THAT(*patient, IsEmpty());
}

TEST_F(SingleFlightTest, AFlightThatCannotStartSaysWhy) {
  start_status = absl::ResourceExhaustedError("full");
  EXPECT_THAT(*Ask("a", Call()), ElementsAre(StatusIs(absl::StatusCode::kResourceExhausted)));
}

TEST_F(SingleFlightTest, ACallCancelledBeforeItAsksIsToldSo) {
  const auto context = Call();
  context->Cancel();
  EXPECT_THAT(*Ask("a", context), ElementsAre(StatusIs(absl::StatusCode::kCancelled)));
}

Limits LimitsOf(int worker_count, int max_queue_length) {
  Limits limits;
  limits.worker_count = worker_count;
  limits.max_queue_length = max_queue_length;
  return limits;
}

// A pool whose only worker is busy until `release` is called.
class SearchPoolTest : public testing::Test {
 protected:
  SearchPool::Task Blocker() {
    return {[this](const std::function<bool()>&) { released_.wait(); }, [](const absl::Status&) {}};
  }
  void Release() { release_.set_value(); }

  RecordingObserver observer;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

TEST_F(SearchPoolTest, ASearchGetsItsPartOfTheMemoryAndFewRunWherePartsAreSmall) {
  struct Case {
    int64_t memory;
    int running;
    int64_t budget;
  };
  const int64_t least = SearchPool::kMinSearchBytes;
  for (const Case& expected :
       {Case{0, 3, std::numeric_limits<int64_t>::max()}, Case{30 * least, 3, 10 * least},
        Case{3 * least, 3, least}, Case{3 * least - 2, 2, 3 * least / 2 - 1}, Case{1, 1, 1}}) {
    Limits limits = LimitsOf(3, 10);
    limits.search_memory_bytes = expected.memory;
    EXPECT_EQ(SearchPool::RunningCount(limits), expected.running);
    SearchPool pool(limits, observer);
    std::promise<int64_t> budget;
    ASSERT_OK(pool.Submit({[&budget](const std::function<bool()>&) {
                             budget.set_value(MemoryAccount::OfThread()->budget());
                           },
                           [](const absl::Status&) {}}));
    EXPECT_EQ(budget.get_future().get(), expected.budget);
    std::promise<void> end;
    const std::shared_future<void> ended = end.get_future().share();
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK(pool.Submit(
          {[ended](const std::function<bool()>&) { ended.wait(); }, [](const absl::Status&) {}}));
    }
    observer.AwaitWaiting(4 - expected.running);
    observer.AwaitRunning(expected.running);
    end.set_value();
    pool.Drain(absl::InfiniteDuration());
  }
}

TEST_F(SearchPoolTest, RefusesWhatTheQueueCannotHoldAndSaysHowLongItIs) {
  SearchPool pool(LimitsOf(1, 1), observer);
  ASSERT_OK(pool.Submit(Blocker()));
  observer.AwaitWaiting(0);
  ASSERT_OK(pool.Submit(Blocker()));
  const absl::Status refused = pool.Submit(Blocker()).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(GetRetryDelay(refused).has_value());
  EXPECT_EQ(GetErrorDetail(refused)->reason, Reason::kQueueFull);
  EXPECT_EQ(GetErrorDetail(refused)->metadata.at("queueLength"), "1");
  Release();
}

TEST_F(SearchPoolTest, DrainLetsWorkFinishWithinItsGrace) {
  SearchPool pool(LimitsOf(1, 8), observer);
  std::atomic<int> done = 0;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(pool.Submit(
        {[&done](const std::function<bool()>&) { ++done; }, [](const absl::Status&) { FAIL(); }}));
  }
  pool.Drain(absl::InfiniteDuration());
  EXPECT_EQ(done, 5);
  EXPECT_THAT(pool.Submit(Blocker()), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(SearchPoolTest, AfterItsGraceDrainStopsWhatRunsAndDropsWhatWaits) {
  SearchPool pool(LimitsOf(1, 8), observer);
  ASSERT_OK(pool.Submit({[](const std::function<bool()>& stopping) {
                           while (!stopping()) std::this_thread::yield();
                         },
                         [](const absl::Status&) { FAIL(); }}));
  observer.AwaitRunning(1);
  absl::Status dropped;
  ASSERT_OK(pool.Submit({[](const std::function<bool()>&) { FAIL(); },
                         [&dropped](const absl::Status& status) { dropped = status; }}));
  pool.Drain(absl::ZeroDuration());
  EXPECT_EQ(GetErrorDetail(dropped)->reason, Reason::kDraining);
}

TEST_F(SearchPoolTest, WhoeverTakesAPlaceInAFullQueueTellsTheOneWhoLosesIt) {
  SearchPool pool(LimitsOf(1, 2), observer);
  ASSERT_OK(pool.Submit(Blocker()));
  observer.AwaitWaiting(0);
  std::vector<std::string> lost;
  const auto submit = [&](const std::string& holder) {
    SearchPool::Task task = Blocker();
    task.place = {holder, "lab"};
    task.drop = [&lost, holder](const absl::Status& status) {
      if (status.code() == absl::StatusCode::kResourceExhausted) lost.push_back(holder);
    };
    return pool.Submit(std::move(task)).status();
  };
  ASSERT_OK(submit("cn:a"));
  ASSERT_OK(submit("cn:a"));
  EXPECT_OK(submit("cn:b"));
  EXPECT_THAT(lost, ElementsAre("cn:a"));
  EXPECT_THAT(submit("cn:c"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(lost, ElementsAre("cn:a"));
  Release();
}

// Tasks of several holders that run one at a time, each until it is released.
class HeldSearches : public testing::Test {
 protected:
  static constexpr char kCluster[] = "lab";

  static std::shared_ptr<CallContext> CallOf(const std::string& name) {
    const Identity identity =
        Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
    return CallContext::Create("call", absl::InfiniteDuration(), Clock::Real(),
                               std::make_shared<const Caller>(identity, std::vector<HeldRole>()));
  }

  void Submit(const std::string& name) {
    SearchPool::Task task;
    task.run = [this, name](const std::function<bool()>&) { Hold(name); };
    task.drop = [this, name](const absl::Status&) { lost.push_back(name); };
    task.place = {absl::StrCat("cn:", name), kCluster};
    ASSERT_OK(pool.Submit(std::move(task)));
  }

  // Runs on the worker.
  void Hold(const std::string& name) {
    std::unique_lock<std::mutex> lock(mutex_);
    running_ = name;
    changed_.notify_all();
    changed_.wait(lock, [this] { return release_count_ > 0; });
    --release_count_;
    running_.clear();
    changed_.notify_all();
  }

  void AwaitRunning(const std::string& name) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return running_ == name; });
  }

  void Release(int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    release_count_ += count;
    changed_.notify_all();
  }

  // Holders whose searches lost their places.
  std::vector<std::string> lost;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string running_;
  int release_count_ = 0;

 protected:
  RecordingObserver observer;
  // Its threads use all of the above.
  SearchPool pool{LimitsOf(1, 8), observer};
};

TEST_F(HeldSearches, ASearchThatLosesItsPlaceGoesOnForTheOthersWhoWaitForIt) {
  Submit("x");
  AwaitRunning("x");
  Submit("a");
  Submit("a");
  Submit("n");
  Submit("n");
  std::vector<absl::StatusOr<int>> answers_of_n;
  std::promise<absl::StatusOr<int>> answer_of_a;
  const auto flight = std::make_shared<Flight<int>>(Clock::Real(), nullptr);
  ASSERT_TRUE(flight->Join(CallOf("n"), nullptr, [&](const absl::StatusOr<int>& answer) {
    answers_of_n.push_back(answer);
  }));
  ASSERT_TRUE(flight->Join(CallOf("a"), nullptr, [&](const absl::StatusOr<int>& answer) {
    answer_of_a.set_value(answer);
  }));
  // With two of its own waiting, `a` would gain nothing from a third.
  ASSERT_OK(QueueSharedSearch<int>(pool, flight, {"cn:n", kCluster},
                                   [](const std::function<bool()>&) { return 7; }));
  for (int i = 0; i < 3; ++i) Submit("z");
  // Two of each other holder wait once the two of `a` have run.
  for (const char* name : {"a", "n", "z", "a"}) {
    Release(1);
    AwaitRunning(name);
  }
  for (const char* name : {"o", "o", "p", "p"}) Submit(name);
  ASSERT_THAT(lost, IsEmpty());
  Submit("last");
  // Its own caller is refused, and `a`, which has nothing else waiting, takes the place of another.
  EXPECT_THAT(answers_of_n, ElementsAre(StatusIs(absl::StatusCode::kResourceExhausted)));
  EXPECT_THAT(lost, ElementsAre("o"));
  Release(100);
  EXPECT_THAT(answer_of_a.get_future().get(), IsOkAndHolds(7));
}

TEST_F(HeldSearches, ASearchThatThrowsAnswersItsCallersAndTheNextOneRuns) {
  for (const bool throws : {true, false}) {
    std::promise<absl::StatusOr<int>> answer;
    const auto flight = std::make_shared<Flight<int>>(Clock::Real(), nullptr);
    ASSERT_TRUE(flight->Join(CallOf("a"), nullptr,
                             [&](const absl::StatusOr<int>& given) { answer.set_value(given); }));
    ASSERT_OK(QueueSharedSearch<int>(pool, flight, {"cn:a", kCluster},
                                     [throws](const std::function<bool()>&) {
                                       if (throws) throw std::bad_alloc();
                                       return 7;
                                     }));
    const absl::StatusOr<int> given = answer.get_future().get();
    if (throws) {
      EXPECT_THAT(given, StatusIs(absl::StatusCode::kInternal));
    } else {
      EXPECT_THAT(given, IsOkAndHolds(7));
    }
  }
}

}  // namespace
}  // namespace parplan
