#include "clients/cpp/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Attempts that end with one status after the other, the last one for ever.
class Attempts {
 public:
  explicit Attempts(std::vector<absl::Status> ends) : ends_(std::move(ends)) {}

  absl::StatusOr<int> operator()(const CallOptions& options) const {
    timeouts_.push_back(options.timeout);
    const absl::Status& end = ends_[std::min(timeouts_.size(), ends_.size()) - 1];
    if (!end.ok()) return end;
    return static_cast<int>(timeouts_.size());
  }
  // The timeout of each attempt.
  const std::vector<absl::Duration>& timeouts() const { return timeouts_; }

 private:
  const std::vector<absl::Status> ends_;
  mutable std::vector<absl::Duration> timeouts_;
};

TEST(WithRetries, TriesAgainWhileNoServerAnswers) {
  const Attempts attempts(
      {absl::UnavailableError("away"), absl::CancelledError("ends"), absl::OkStatus()});
  EXPECT_THAT(WithRetries(CallOptions(), attempts), IsOkAndHolds(3));
  ASSERT_EQ(attempts.timeouts().size(), 3u);
  // All attempts share one timeout: 100 and 300 ms of it are gone, but for the drift of a clock.
  EXPECT_LE(attempts.timeouts()[1], CallOptions().timeout - absl::Milliseconds(99));
  EXPECT_LE(attempts.timeouts()[2], CallOptions().timeout - absl::Milliseconds(398));
}

TEST(WithRetries, GivesUpAfterFourAttempts) {
  const Attempts attempts({absl::UnavailableError("away")});
  EXPECT_THAT(WithRetries(CallOptions(), attempts), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts.timeouts().size(), 4u);
}

TEST(WithRetries, RepeatsNoOtherError) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("wrong"), absl::DeadlineExceededError("late"),
        absl::ResourceExhaustedError("full"), absl::InternalError("broken")}) {
    const Attempts attempts({error});
    EXPECT_EQ(WithRetries(CallOptions(), attempts).status(), error);
    EXPECT_EQ(attempts.timeouts().size(), 1u);
  }
}

// The time went into what an earlier attempt says.
TEST(WithRetries, ADeadlineThatPassesKeepsWhatTheServerSaidBefore) {
  const absl::Status cause = MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                                       "store: PostgreSQL does not answer", {{"server", "s1"}});
  const Attempts attempts(
      {absl::UnavailableError("ends"), cause, absl::DeadlineExceededError("late")});
  const absl::Status status = WithRetries(CallOptions(), attempts).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(StartsWith("late; "), HasSubstr("UNAVAILABLE"),
                                     HasSubstr("PostgreSQL does not answer"))));
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kStoreUnavailable);
  EXPECT_EQ(GetErrorDetail(status)->metadata.at("server"), "s1");
}

TEST(WithEarlierCause, KeepsAReasonOfTheDeadlineItselfAndChangesNoOtherError) {
  const absl::Status earlier = MakeError(absl::StatusCode::kUnavailable, Reason::kDraining, "ends");
  const absl::Status late =
      MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut, "too late");
  EXPECT_EQ(GetErrorDetail(WithEarlierCause(late, earlier))->reason, Reason::kSearchTimedOut);
  EXPECT_THAT(WithEarlierCause(late, earlier),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("UNAVAILABLE: ends")));
  EXPECT_EQ(WithEarlierCause(late, absl::OkStatus()), late);
  EXPECT_EQ(WithEarlierCause(earlier, late), earlier);
  const absl::Status plain = absl::DeadlineExceededError("late");
  EXPECT_EQ(WithEarlierCause(plain, absl::UnavailableError("away")).message(),
            "late; the attempt before ended with UNAVAILABLE: away");
}

TEST(WithRetries, DoesNotPauseBeyondTheTimeout) {
  const Attempts attempts({absl::UnavailableError("away")});
  EXPECT_THAT(WithRetries({.timeout = absl::Milliseconds(50)}, attempts),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts.timeouts().size(), 1u);
}

}  // namespace
}  // namespace parplan
