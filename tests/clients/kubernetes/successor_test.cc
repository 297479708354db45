#include "clients/kubernetes/successor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan::sidecar {
namespace {

using testing::HasSubstr;

v1::PlanPayload PlanOf(int64_t generation) {
  v1::PlanPayload payload;
  payload.set_plan("clusters/c/plans/p");
  payload.set_job_id("j");
  payload.set_model_digest("model");
  payload.set_global_batch_size(8);
  payload.set_generation(generation);
  return payload;
}

void ExpectRefused(const v1::PlanPayload& current, const v1::PlanPayload& next,
                   const std::string& why) {
  const absl::Status status = CheckSuccessor(current, next);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kAudienceMismatch);
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(CheckSuccessor, TakesHigherGenerationsOnly) {
  EXPECT_OK(CheckSuccessor(PlanOf(1), PlanOf(2)));
  EXPECT_OK(CheckSuccessor(PlanOf(1), PlanOf(7)));
  ExpectRefused(PlanOf(2), PlanOf(1), "generation 1");
  ExpectRefused(PlanOf(2), PlanOf(2), "generation 2");
  // A plan without a number, as an older server signs it, is no way around the numbers.
  ExpectRefused(PlanOf(2), PlanOf(0), "generation 0");
}

TEST(CheckSuccessor, PlansOfOlderReleasesHaveNoNumbers) {
  EXPECT_OK(CheckSuccessor(PlanOf(0), PlanOf(0)));
  EXPECT_OK(CheckSuccessor(PlanOf(0), PlanOf(1)));
}

TEST(CheckSuccessor, TakesTheSameTrainingOnly) {
  v1::PlanPayload other = PlanOf(2);
  other.set_model_digest("other");
  ExpectRefused(PlanOf(1), other, "another model");
  other = PlanOf(2);
  other.set_global_batch_size(1);
  ExpectRefused(PlanOf(1), other, "a batch of 1 and the job trains with 8");
}

}  // namespace
}  // namespace parplan::sidecar
