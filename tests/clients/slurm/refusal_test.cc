#include "clients/slurm/refusal.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace parplan::slurm {
namespace {

TEST(Refusal, IsTheJobsFaultAndDoesNotPass) {
  for (const Reason reason : {Reason::kSpecInvalid, Reason::kNoFeasiblePlan,
                              Reason::kTopologyMismatch, Reason::kPlanExpired}) {
    const absl::Status status = MakeError(absl::StatusCode::kFailedPrecondition, reason, "x");
    EXPECT_TRUE(IsRefusal(status)) << status;
    EXPECT_FALSE(MayPass(status)) << status;
  }
  // Requeued jobs would make the server search in vain for ever.
  const absl::Status memory =
      MakeError(absl::StatusCode::kResourceExhausted, Reason::kSearchOutOfMemory, "x");
  EXPECT_TRUE(IsRefusal(memory));
  EXPECT_FALSE(MayPass(memory));
}

TEST(Refusal, IsNoneWhereTheServerIsBusyOrAway) {
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::CancelledError("x"), absl::ResourceExhaustedError("x"),
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull, "x"),
        MakeError(absl::StatusCode::kUnavailable, Reason::kDraining, "x")}) {
    EXPECT_TRUE(MayPass(status)) << status;
    EXPECT_FALSE(IsRefusal(status)) << status;
  }
  const absl::Status missing =
      MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing, "x");
  EXPECT_FALSE(MayPass(missing));
  EXPECT_FALSE(IsRefusal(missing));
}

}  // namespace
}  // namespace parplan::slurm
