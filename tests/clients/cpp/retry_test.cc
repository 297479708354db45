#include "clients/cpp/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

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

TEST(WithRetries, DoesNotPauseBeyondTheTimeout) {
  const Attempts attempts({absl::UnavailableError("away")});
  EXPECT_THAT(WithRetries({.timeout = absl::Milliseconds(50)}, attempts),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(attempts.timeouts().size(), 1u);
}

}  // namespace
}  // namespace parplan
