// Several cores over one store, as several servers have them.

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/turns.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::HasSubstr;

// The turns of servers in one process.
class TurnTable {
 public:
  std::unique_ptr<Turns> Open() { return std::make_unique<Server>(this); }

  // Waits until so many servers wait for a turn.
  void AwaitWaiting(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() == count; });
  }

  // Lets all who wait go on without a turn, as when the holder gives no sign of life.
  void GiveUpWaiting() { StopAll(); }

  // From now on turns are unavailable.
  void Break() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_broken_ = true;
  }

 private:
  struct Question {
    std::string key;
    Turns::Granted granted;
  };

  class Held : public Turn {
   public:
    Held(TurnTable* table, std::string key) : table_(table), key_(std::move(key)) {}
    ~Held() override { table_->GiveBack(key_); }

   private:
    TurnTable* const table_;
    const std::string key_;
  };

  class Server : public Turns {
   public:
    explicit Server(TurnTable* table) : table_(table) {}
    void Ask(const std::string& key, std::function<bool()>, Granted granted) override {
      table_->Ask({key, std::move(granted)});
    }
    void Stop() override { table_->StopAll(); }

   private:
    TurnTable* const table_;
  };

  void Ask(Question question) {
    std::unique_ptr<Turn> turn;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!is_broken_) {
        if (!held_.insert({question.key, true}).second) {
          waiting_.push_back(std::move(question));
          changed_.notify_all();
          return;
        }
        turn = std::make_unique<Held>(this, question.key);
      }
    }
    question.granted(std::move(turn));
  }

  void GiveBack(const std::string& key) {
    Question next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      held_.erase(key);
      for (auto question = waiting_.begin(); question != waiting_.end(); ++question) {
        if (question->key != key) continue;
        next = std::move(*question);
        waiting_.erase(question);
        changed_.notify_all();
        break;
      }
    }
    if (next.granted) Ask(std::move(next));
  }

  void StopAll() {
    std::deque<Question> waiting;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting.swap(waiting_);
    }
    for (const Question& question : waiting) question.granted(nullptr);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_broken_ = false;            // Guarded by mutex_.
  std::map<std::string, bool> held_;  // Guarded by mutex_.
  std::deque<Question> waiting_;      // Guarded by mutex_.
};

class ReplicasTest : public CoreTest {
 protected:
  void SetUp() override {
    StartMeasured();
    first = MakeCore(store().OpenAgain(), turns.Open());
    second = MakeCore(store().OpenAgain(), turns.Open());
  }
  void TearDown() override {
    planner.is_open = true;
    // Each may wait for a turn that the other holds.
    first.reset();
    second.reset();
  }

  // Asks the first, and once it searches the second.
  void AskBoth(const v1::CreatePlanRequest& request, const v1::CreatePlanRequest& other) {
    planner.is_open = false;
    answers[0] = AskLater(*first, request, Call());
    while (planner.search_count == 0) std::this_thread::yield();
    answers[1] = AskLater(*second, other, Call());
  }

  v1::CreatePlanRequest QuestionOfJob(const std::string& job) {
    v1::CreatePlanRequest request = Question();
    request.set_job_id(job);
    return request;
  }

  TurnTable turns;
  std::unique_ptr<ServerCore> first;
  std::unique_ptr<ServerCore> second;
  std::future<absl::StatusOr<SharedPlan>> answers[2];
};

TEST_F(ReplicasTest, OneQuestionToTwoServersIsSearchedOnce) {
  AskBoth(Question(), Question());
  turns.AwaitWaiting(1);
  planner.is_open = true;
  ASSERT_OK_AND_ASSIGN(const SharedPlan one, answers[0].get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan other, answers[1].get());
  EXPECT_EQ(planner.search_count, 1);
  EXPECT_EQ(one->name(), other->name());
  EXPECT_EQ(one->signed_plan().payload(), other->signed_plan().payload());
}

TEST_F(ReplicasTest, TheSearchOfOneServerAnswersOtherJobsOfAnother) {
  AskBoth(QuestionOfJob("one"), QuestionOfJob("other"));
  turns.AwaitWaiting(1);
  planner.is_open = true;
  ASSERT_OK_AND_ASSIGN(const SharedPlan one, answers[0].get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan other, answers[1].get());
  EXPECT_EQ(planner.search_count, 1);
  v1::PlanPayload expected = PayloadOf(*one);
  const v1::PlanPayload payload = PayloadOf(*other);
  EXPECT_EQ(payload.job_id(), "other");
  EXPECT_EQ(payload.plan(), other->name());
  EXPECT_NE(other->name(), one->name());
  expected.set_job_id("other");
  expected.set_plan(other->name());
  EXPECT_EQ(expected.SerializeAsString(), payload.SerializeAsString());
  // It was stored as any other, and is found by name and by the next who asks.
  v1::GetPlanRequest get;
  get.set_name(other->name());
  EXPECT_OK(first->plans().GetPlan(get));
  EXPECT_EQ((*AskLater(*first, QuestionOfJob("other"), Call()).get())->name(), other->name());
  v1::VerifyPlanRequest verify;
  *verify.mutable_signed_plan() = other->signed_plan();
  EXPECT_EQ(first->plans().VerifyPlan(verify).verdict(), v1::VerifyPlanResponse::VALID);
}

TEST_F(ReplicasTest, AServerThatWasStartedAgainSearchesNothingTwice) {
  ASSERT_OK(AskLater(*first, QuestionOfJob("before"), Call()).get());
  first.reset();
  first = MakeCore(store().OpenAgain(), turns.Open());
  ASSERT_OK(AskLater(*first, QuestionOfJob("after"), Call()).get());
  EXPECT_EQ(planner.search_count, 1);
}

// Another server stored it, or the server has keys of its own.
TEST_F(ReplicasTest, AnAnswerThatNoTrustedKeySignedIsNotSignedAgain) {
  ASSERT_OK_AND_ASSIGN(KeyStore keys, KeyStore::OpenOrCreate(MakeTestFolder(), clock.Now()));
  ServerCore stranger(store().OpenAgain(), std::make_unique<KeyRing>(std::move(keys), clock.Now()),
                      limits, clock, observer, std::ref(planner), turns.Open());
  ASSERT_OK(AskLater(stranger, QuestionOfJob("one"), Call()).get());
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan,
                       AskLater(*first, QuestionOfJob("other"), Call()).get());
  EXPECT_EQ(planner.search_count, 2);
}

TEST_F(ReplicasTest, ServersThatCannotReachOneAnotherSearchEach) {
  turns.Break();
  AskBoth(QuestionOfJob("one"), QuestionOfJob("other"));
  while (planner.search_count < 2) std::this_thread::yield();
  planner.is_open = true;
  EXPECT_OK(answers[0].get());
  EXPECT_OK(answers[1].get());
}

TEST_F(ReplicasTest, ACallerWhoLeavesWhileAnotherServerSearchesHearsSoAtOnce) {
  planner.is_open = false;
  answers[0] = AskLater(*first, Question(), Call());
  while (planner.search_count == 0) std::this_thread::yield();
  const auto context = Call();
  answers[1] = AskLater(*second, Question(), context);
  turns.AwaitWaiting(1);
  context->Cancel();
  EXPECT_THAT(answers[1].get(), StatusIs(absl::StatusCode::kCancelled));
  planner.is_open = true;
  EXPECT_OK(answers[0].get());
  EXPECT_EQ(planner.search_count, 1);
}

// The holder of the turn is frozen, say.
TEST_F(ReplicasTest, WhoWaitsInVainForAnotherServerSearchesItself) {
  AskBoth(Question(), Question());
  turns.AwaitWaiting(1);
  turns.GiveUpWaiting();
  while (planner.search_count < 2) std::this_thread::yield();
  planner.is_open = true;
  EXPECT_OK(answers[1].get());
  EXPECT_OK(answers[0].get());
}

TEST_F(ReplicasTest, ADeadlineThatPassesWhileAnotherServerSearchesSaysSo) {
  planner.is_open = false;
  answers[0] = AskLater(*first, Question(), Call());
  while (planner.search_count == 0) std::this_thread::yield();
  answers[1] = AskLater(*second, Question(), Call(absl::Seconds(10)));
  turns.AwaitWaiting(1);
  clock.Advance(absl::Seconds(10));
  turns.GiveUpWaiting();
  const auto late = answers[1].get();
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("another server")));
  EXPECT_EQ(ReasonOf(late.status()), Reason::kSearchTimedOut);
  EXPECT_EQ(planner.search_count, 1);
  planner.is_open = true;
  EXPECT_OK(answers[0].get());
}

TEST_F(ReplicasTest, ADrainNotifiesThoseWhoWaitForAnotherServer) {
  AskBoth(Question(), Question());
  turns.AwaitWaiting(1);
  second->Drain(absl::ZeroDuration());
  const auto told = answers[1].get();
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(ReasonOf(told.status()), Reason::kDraining);
  planner.is_open = true;
  EXPECT_OK(answers[0].get());
}

// As an index of a damaged database finds it: the answer would get a new signature.
TEST_F(ReplicasTest, AnAnswerUnderTheKeyOfAnotherQuestionIsNotGivenOut) {
  v1::CreatePlanRequest larger = Question();
  larger.mutable_spec()->set_global_batch_size(32);
  ASSERT_OK_AND_ASSIGN(const SharedPlan right, Ask(Question()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan wrong, Ask(larger));
  ASSERT_OK_AND_ASSIGN(const PlanRecord right_record, store().GetPlan(right->name()));
  ASSERT_OK_AND_ASSIGN(PlanRecord record, store().GetPlan(wrong->name()));
  record.answer_key = right_record.answer_key;
  record.plan_key = "of no question";
  StartMeasured();
  ASSERT_OK(store().PutPlan(record).status());
  first = MakeCore(store().OpenAgain(), turns.Open());
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskLater(*first, Question(), Call()).get());
  EXPECT_EQ(PayloadOf(*plan).global_batch_size(), Question().spec().global_batch_size());
}

}  // namespace
}  // namespace parplan
