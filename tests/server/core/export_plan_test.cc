// `PlanCore::ExportPlan`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exports/exporters.h"
#include "exports/verified_export.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/model_wire.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExportPlanTest : public CoreTest {
 protected:
  // Plans a model that Megatron-LM runs, in its space.
  absl::StatusOr<SharedPlan> AskForMegatron() {
    Start();
    v1::CreatePlanRequest request = Question();
    v1::PlanSpec& spec = *request.mutable_spec();
    *spec.mutable_model() = ModelToProto(DecoderModel({.dense_layer_count = 8}));
    spec.mutable_topology()->mutable_node_groups(0)->set_device_kind("NVIDIA A100-SXM4-80GB");
    spec.set_global_batch_size(64);
    spec.mutable_options()->set_allow_estimates(true);
    spec.mutable_options()->set_target("megatron");
    spec.mutable_options()->set_runtime_id("megatron-core");
    return Ask(request);
  }
};

// The question is refused before a search, with the field of the request.
TEST_F(ExportPlanTest, NothingIsPlannedForAProgramThatRunsNoPlanOfTheModel) {
  ASSERT_OK(AskForMegatron());
  const int searches = planner.search_count;
  v1::CreatePlanRequest request = Question();
  v1::PlanSpec& spec = *request.mutable_spec();
  *spec.mutable_model() = ModelToProto(DecoderModel({.window_interval = 2, .prediction_count = 1}));
  spec.mutable_options()->set_target("megatron");
  EXPECT_THAT(Ask(request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("spec.model.layer_runs: has in layer 5"),
                             HasSubstr("Megatron-LM can't run that, whatever the plan"))));
  v1::ShapePlanRequest shape;
  shape.set_parent(request.parent());
  *shape.mutable_model() = spec.model();
  *shape.mutable_options() = spec.options();
  EXPECT_THAT(AskShape(shape).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("model.layer_runs: has in layer 5")));
  EXPECT_EQ(planner.search_count, searches);
}

v1::ExportPlanRequest ByName(const std::string& name, const std::string& target) {
  v1::ExportPlanRequest request;
  request.set_name(name);
  request.set_target(target);
  return request;
}

TEST_F(ExportPlanTest, GivesTheFilesThatANodeMakes) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskForMegatron());
  ASSERT_OK_AND_ASSIGN(const v1::ExportPlanResponse by_name,
                       core().plans().ExportPlan(ByName(plan->name(), "megatron")));
  const auto has_arguments = [](const v1::ExportedFile& file) {
    return file.name() == "megatron.args" && !file.content().empty();
  };
  EXPECT_TRUE(std::any_of(by_name.files().begin(), by_name.files().end(), has_arguments));
  v1::ExportPlanRequest signed_request;
  *signed_request.mutable_signed_plan() = plan->signed_plan();
  *signed_request.mutable_model() = plan->spec().model();
  signed_request.set_target("megatron");
  ASSERT_OK_AND_ASSIGN(const v1::ExportPlanResponse by_envelope,
                       core().plans().ExportPlan(signed_request));
  EXPECT_EQ(by_envelope.SerializeAsString(), by_name.SerializeAsString());
  // Every target answers, with files or with a reason.
  const v1::Capabilities capabilities = core().plans().GetCapabilities();
  EXPECT_EQ(std::vector<std::string>(capabilities.export_targets().begin(),
                                     capabilities.export_targets().end()),
            ExportTargets());
  for (const std::string& target : capabilities.export_targets()) {
    const auto files = core().plans().ExportPlan(ByName(plan->name(), target));
    if (!files.ok()) {
      EXPECT_EQ(ReasonOf(files.status()), Reason::kSpecInvalid) << target;
    }
  }
}

TEST_F(ExportPlanTest, RefusesBadRequests) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskForMegatron());
  const auto refuse = [&](const v1::ExportPlanRequest& request, absl::StatusCode code,
                          Reason reason, const std::string& part) {
    const absl::Status status = core().plans().ExportPlan(request).status();
    EXPECT_THAT(status, StatusIs(code, HasSubstr(part)));
    EXPECT_EQ(ReasonOf(status), reason) << part;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  refuse(ByName(plan->name(), ""), kInvalid, Reason::kSpecInvalid, "target: must be one of");
  refuse(ByName(plan->name(), "nemo"), kInvalid, Reason::kSpecInvalid, "and is `nemo`");
  refuse(ByName("plans/1", "megatron"), kInvalid, Reason::kSpecInvalid, "name");
  refuse(ByName(plan->name() + "0", "megatron"), absl::StatusCode::kNotFound,
         Reason::kResourceNotFound, plan->name());
  v1::ExportPlanRequest request;
  request.set_target("megatron");
  refuse(request, kInvalid, Reason::kSpecInvalid, "name: is required");
  request.set_name(plan->name());
  *request.mutable_model() = plan->spec().model();
  refuse(request, kInvalid, Reason::kSpecInvalid, "model: must be absent");

  v1::ExportPlanRequest envelope;
  envelope.set_target("megatron");
  *envelope.mutable_signed_plan() = plan->signed_plan();
  refuse(envelope, kInvalid, Reason::kSpecInvalid, "model: is required");
  *envelope.mutable_model() = ModelToProto(DecoderModel({.dense_layer_count = 9}));
  refuse(envelope, kInvalid, Reason::kSpecInvalid, "model: is not the one");
  envelope.mutable_model()->clear_layer_runs();
  refuse(envelope, kInvalid, Reason::kSpecInvalid, "layer_runs");
  *envelope.mutable_model() = plan->spec().model();
  v1::ExportPlanRequest altered = envelope;
  (*altered.mutable_signed_plan()->mutable_payload())[10] ^= 1;
  refuse(altered, absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid, "");
  altered.mutable_signed_plan()->clear_signatures();
  refuse(altered, absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid, "");
  EXPECT_OK(core().plans().ExportPlan(envelope).status());

  clock.Advance(absl::Hours(25));
  refuse(envelope, absl::StatusCode::kFailedPrecondition, Reason::kPlanExpired, "");
  refuse(ByName(plan->name(), "megatron"), absl::StatusCode::kFailedPrecondition,
         Reason::kPlanExpired, "");
}

TEST_F(ExportPlanTest, RefusesAModelBeyondTheLimit) {
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, AskForMegatron());
  const std::string name = plan->name();
  limits.max_layer_count = 4;
  Start(store().OpenAgain());
  const absl::Status status = core().plans().ExportPlan(ByName(name, "megatron")).status();
  EXPECT_EQ(ReasonOf(status), Reason::kUploadTooLarge);
}

}  // namespace
}  // namespace parplan
