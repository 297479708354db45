#include "proto/wire/problem_wire.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "proto/wire/part_of_node.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

std::shared_ptr<const ProfileSnapshot> Snapshot() {
  const v1::Profile profile = SmallProfile();
  const v1::Profile* const pointer = &profile;
  absl::StatusOr<ProfileSnapshot> snapshot = SnapshotOfNodes({&pointer, 1}, "GPU", 8, "parplan");
  return std::make_shared<const ProfileSnapshot>(*std::move(snapshot));
}

v1::PlanSpec SmallSpec() {
  v1::PlanSpec spec;
  spec.mutable_model()->set_model_id("small");
  *spec.mutable_model()->add_layer_definitions() = SmallProfile().layer_definitions(0);
  v1::ModelLayerRun& run = *spec.mutable_model()->add_layer_runs();
  run.set_layer_definition_id("decoder");
  run.set_layer_count(4);
  spec.mutable_model()->set_precision(v1::PRECISION_BF16);
  spec.mutable_model()->set_optimizer(v1::OPTIMIZER_ADAM);
  spec.mutable_topology()->set_cluster("lab");
  v1::NodeGroup& group = *spec.mutable_topology()->add_node_groups();
  group.set_node_group_id("a");
  group.set_device_kind("GPU");
  group.set_node_count(1);
  group.set_devices_per_node(8);
  group.set_device_memory_bytes(1'000'000);
  v1::LinkTier& tier = *spec.mutable_topology()->add_link_tiers();
  tier.set_tier_id("nvlink");
  tier.set_reach_device_count(8);
  spec.set_global_batch_size(16);
  return spec;
}

// Both steps at once.
absl::StatusOr<PlanningProblem> ProblemFromSpec(const v1::PlanSpec& spec, Knowledge knowledge,
                                                absl::string_view field = "") {
  PARPLAN_ASSIGN_OR_RETURN(const AskedPlan asked, AskedPlanFromProto(spec, field));
  return ProblemFor(asked, std::move(knowledge), field);
}

TEST(AskedPlanFromProto, CarriesEveryPart) {
  v1::PlanSpec spec = SmallSpec();
  spec.mutable_options()->set_memory_headroom_ratio(0.5);
  spec.mutable_options()->set_micro_batch_count(4);
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, ProblemFromSpec(spec, {{{Snapshot()}}}));
  EXPECT_EQ(problem.model().layer_count(), 4);
  EXPECT_EQ(problem.device_count(), 8);
  EXPECT_EQ(problem.global_batch_size(), 16);
  EXPECT_EQ(problem.rules().micro_batch_count, 4);
  EXPECT_EQ(problem.usable_memory().count(), 500'000);
  EXPECT_EQ(problem.profile(kFirstGroup).layers().size(), 1u);
}

TEST(AskedPlanFromProto, NamesFieldsFromTheCallersMessageOn) {
  v1::PlanSpec spec = SmallSpec();
  spec.mutable_model()->mutable_layer_runs(0)->set_layer_count(0);
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}).status()),
            "SPEC_INVALID model.layer_runs[0].layer_count");
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.model.layer_runs[0].layer_count");

  spec = SmallSpec();
  spec.set_global_batch_size(0);
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}).status()),
            "SPEC_INVALID global_batch_size");
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.global_batch_size");

  spec = SmallSpec();
  spec.mutable_options()->set_micro_batch_count(3);
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.options.micro_batch_count");

  spec = SmallSpec();
  spec.mutable_options()->set_smallest_global_batch_size(17);
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.options.smallest_global_batch_size");
  spec.mutable_options()->set_smallest_global_batch_size(1);
  spec.mutable_options()->set_top_plan_count(kMaxTopPlanCount + 1);
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.options.top_plan_count");

  spec = SmallSpec();
  spec.mutable_topology()->mutable_node_groups(0)->clear_device_kind();
  EXPECT_EQ(Rejection(ProblemFromSpec(spec, {{{Snapshot()}}}, "spec").status()),
            "SPEC_INVALID spec.topology.node_groups[0].device_kind");
}

TEST(AskedPlanFromProto, RefusesASpaceThatIsUnknown) {
  v1::PlanSpec spec = SmallSpec();
  spec.mutable_options()->set_space("abacus");
  EXPECT_EQ(Rejection(AskedPlanFromProto(spec, "spec").status()),
            "SPEC_INVALID spec.options.space");
}

TEST(ProblemFor, TakesRulesThatNoRequestMayAskFor) {
  ASSERT_OK_AND_ASSIGN(AskedPlan asked, AskedPlanFromProto(SmallSpec()));
  asked.options.rules.schedule = Schedule::kInterleaved;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, ProblemFor(asked, {{{Snapshot()}}}));
  EXPECT_TRUE(problem.rules() == asked.options.rules);
}

TEST(ProblemFor, NeedsAProfileOfTheNodes) {
  v1::PlanSpec spec = SmallSpec();
  spec.mutable_topology()->mutable_node_groups(0)->set_device_kind("Other");
  EXPECT_THAT(ProblemFromSpec(spec, {{{Snapshot()}}}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace parplan
