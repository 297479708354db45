#include "exports/verified_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "exports/megatron_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/search_summary.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

// A signed plan of `model` under `runtime_id`, verified.
absl::StatusOr<VerifiedPlan> Verified(const Plan& plan, const ModelSpec& model,
                                      const std::string& runtime_id) {
  v1::PlanPayload payload = MakePayload();
  payload.clear_stages();
  FillPayload(plan, Prediction(), SearchSummary(), model, &payload);
  payload.set_model_digest(ModelDigest(model));
  payload.set_runtime_id(runtime_id);
  const PrivateKey key = FirstKey();
  return PlanVerifier(Trusting({&key}))
      .Verify(Sign(payload, {&key}), ExpectedAudience(), IssueTime() + absl::Hours(1));
}

class VerifiedExport : public testing::Test {
 protected:
  std::mt19937_64 random_{3};
  const ModelSpec model_ = DecoderModel({.dense_layer_count = 4});
  const Plan plan_ = PlanOf(RandomMegatronPlan(random_, model_), model_);
  const PlanExporter& megatron_ = **FindExporter("megatron", "target");
};

TEST_F(VerifiedExport, WritesTheFilesOfThePlanUnderItsNameAndRuntime) {
  ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified, Verified(plan_, model_, "megatron-core"));
  ASSERT_OK_AND_ASSIGN(const auto files, ExportVerifiedPlan(megatron_, verified, model_));
  ASSERT_OK_AND_ASSIGN(const ExportFacts facts,
                       ExportFactsOf("megatron-core", verified.payload().plan()));
  EXPECT_EQ(files, *ExportMegatronPlan(plan_, model_, facts));
  EXPECT_THAT(files.back().text, HasSubstr(verified.payload().plan()));
}

TEST_F(VerifiedExport, RefusesAnotherModelAndAnUnknownRuntime) {
  ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified, Verified(plan_, model_, "megatron-core"));
  EXPECT_THAT(ExportVerifiedPlan(megatron_, verified,
                                 DecoderModel({.dense_layer_count = 4, .gated = true})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model: is not the one")));
  ASSERT_OK_AND_ASSIGN(const VerifiedPlan later, Verified(plan_, model_, "megatron-2031"));
  EXPECT_THAT(ExportVerifiedPlan(megatron_, later, model_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("megatron-2031")));
}

}  // namespace
}  // namespace parplan
