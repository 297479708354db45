#include "clients/kubernetes/plan_hope.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace parplan::sidecar {
namespace {

TEST(MayStillCome, SaysWhatPassesByItself) {
  const auto queue_full =
      MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull, "come back later");
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::DeadlineExceededError("x"), absl::CancelledError("x"),
        absl::ResourceExhaustedError("x"), absl::NotFoundError("x"),
        absl::UnauthenticatedError("x"), queue_full}) {
    EXPECT_TRUE(MayStillCome(status)) << status;
  }
  for (const absl::Status& status :
       {absl::InvalidArgumentError("x"), absl::PermissionDeniedError("x"),
        absl::FailedPreconditionError("x"), absl::InternalError("x")}) {
    EXPECT_FALSE(MayStillCome(status)) << status;
  }
}

// A pod would ask for it until its deadline, and each time the server would search in vain.
TEST(MayStillCome, ASearchThatRanOutOfMemoryIsNotMadeAgain) {
  EXPECT_FALSE(MayStillCome(MakeError(absl::StatusCode::kResourceExhausted,
                                      Reason::kSearchOutOfMemory, "raise search_memory")));
}

}  // namespace
}  // namespace parplan::sidecar
