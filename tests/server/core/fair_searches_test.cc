// Searches that are fair between identities: none takes all places, or all workers.

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "tests/server/core/quota_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST_F(QuotaTest, QuestionsBeyondTheWaitingOnesOfAnIdentityAreRefused) {
  limits.worker_count = 1;
  limits.identity_quota.queued_search_count = 1;
  planner.is_open = false;
  StartMeasured();
  Answer running = AskLaterAs("me", Numbered(1));
  observer.AwaitRunning(1);
  Answer waiting = AskLaterAs("me", Numbered(2));
  ExpectExceeded(AskAs("me", Numbered(3)).status(), "identity.queued_searches", "cn:me", "1");
  Answer theirs = AskLaterAs("you", Numbered(3));
  planner.is_open = true;
  EXPECT_OK(running.get());
  EXPECT_OK(waiting.get());
  EXPECT_OK(theirs.get());
}

// The pool keeps a worker for others while one identity asks for all it can get.
TEST_F(QuotaTest, ANoisyIdentityNeitherTakesAllPlacesNorAllWorkers) {
  limits.worker_count = 2;
  limits.max_queue_length = 8;
  limits.identity_quota.running_search_count = 1;
  planner.is_open = false;
  StartMeasured();
  std::vector<Answer> noisy;
  noisy.push_back(AskLaterAs("noisy", Numbered(1)));
  observer.AwaitRunning(1);
  for (int i = 2; i <= 80; ++i) noisy.push_back(AskLaterAs("noisy", Numbered(i)));
  // One runs at once, and the others have places.
  std::vector<Answer> quiet;
  quiet.push_back(AskLaterAs("quiet", Numbered(81)));
  observer.AwaitRunning(2);
  for (int i = 82; i <= 85; ++i) quiet.push_back(AskLaterAs("quiet", Numbered(i)));
  planner.is_open = true;
  for (Answer& answer : quiet) EXPECT_OK(answer.get());
  int answered = 0;
  int refused = 0;
  for (Answer& answer : noisy) {
    const absl::Status status = answer.get().status();
    if (status.ok()) {
      ++answered;
      continue;
    }
    ++refused;
    EXPECT_EQ(ReasonOf(status), Reason::kQueueFull);
    EXPECT_TRUE(GetRetryDelay(status).has_value());
  }
  // One ran, and four of its eight places went to the other; 71 found no place.
  EXPECT_EQ(answered, 5);
  EXPECT_EQ(refused, 75);
}

// The youngest of a noisy identity's searches loses its place; whoever else waits for it does not.
TEST_F(QuotaTest, AnEqualQuestionOfAQuietIdentityKeepsItsPlace) {
  limits.worker_count = 1;
  limits.max_queue_length = 4;
  planner.is_open = false;
  StartMeasured();
  Answer running = AskLaterAs("noisy", Numbered(1));
  observer.AwaitRunning(1);
  std::vector<Answer> noisy;
  for (int i = 2; i <= 5; ++i) noisy.push_back(AskLaterAs("noisy", Numbered(i)));
  Answer shared = AskLaterAs("quiet", Numbered(5));
  observer.AwaitShared(1);
  // The next takes the place of a noisy one.
  Answer other = AskLaterAs("other", Numbered(6));
  EXPECT_EQ(ReasonOf(noisy[2].get().status()), Reason::kQueueFull);
  planner.is_open = true;
  EXPECT_OK(shared.get());
  EXPECT_OK(other.get());
  EXPECT_OK(noisy[0].get());
  EXPECT_OK(noisy[1].get());
  // The answer that the quiet one waited for is everybody's.
  EXPECT_OK(noisy[3].get());
  EXPECT_OK(running.get());
}

}  // namespace
}  // namespace parplan
