#include "executor/apply/checked_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/executor/apply/apply_cases.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

const Strategy kDp2 = {.data_parallel_degree = 2};

Plan TwoRanks() { return PlanOf(SmallGpt(6), 2, {8}, {kDp2}, kAppliedBatch, 2); }

absl::StatusOr<CheckedPlan> Check(const v1::PlanPayload& payload, const ModelSpec& model,
                                  const Topology& topology) {
  return CheckedPlan::Create(VerifiedFrom(payload), model, topology);
}

std::string FieldOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->metadata.contains("field") ? detail->metadata.at("field")
                                                                  : "";
}

TEST(CheckedPlan, IsThePlanOfItsPayload) {
  const ModelSpec model = SmallGpt(6);
  const Topology topology = NodeOf(2);
  ASSERT_OK_AND_ASSIGN(const CheckedPlan checked,
                       Check(PayloadOf(TwoRanks(), model, topology), model, topology));
  EXPECT_EQ(checked.plan(), TwoRanks());
  EXPECT_EQ(checked.name(), "clusters/tests/plans/p1");
  EXPECT_EQ(checked.prediction().step, Seconds::Of(0.25));
  EXPECT_OK(checked.ProgramOf(1).status());
}

TEST(CheckedPlan, RefusesAnotherModel) {
  const Topology topology = NodeOf(2);
  const absl::Status status =
      Check(PayloadOf(TwoRanks(), SmallGpt(6), topology), SmallLlama(6), topology).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(status), "model_digest");
}

TEST(CheckedPlan, RefusesOtherDevices) {
  const ModelSpec model = SmallGpt(6);
  const absl::Status status =
      Check(PayloadOf(TwoRanks(), model, NodeOf(2)), model, NodeOf(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kTopologyMismatch);
  EXPECT_EQ(FieldOf(status), "topology_digest");
}

TEST(CheckedPlan, RefusesAPlanThatLeavesDevicesOut) {
  const ModelSpec model = SmallGpt(6);
  const Topology topology = NodeOf(4);
  EXPECT_EQ(FieldOf(Check(PayloadOf(TwoRanks(), model, topology), model, topology).status()),
            "device_count");
}

TEST(CheckedPlan, RefusesWhatTheExecutorCannotRunWhole) {
  const ModelSpec model = SmallGpt(6);
  const Topology topology = NodeOf(5);
  // Twelve heads over five ranks, in the last layers only.
  Plan plan = PlanOf(model, 5, {8}, {{.data_parallel_degree = 5}}, 25, 1);
  const Strategy data = plan.stages[0].layer_runs[0].strategy;
  plan.stages[0].layer_runs = {{0, 6, data}, {6, 1, {.tensor_parallel_degree = 5}}, {7, 1, data}};
  const absl::Status status = Check(PayloadOf(plan, model, topology), model, topology).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 6"));
}

TEST(CheckedPlan, RefusesLayersThatAreMissing) {
  const ModelSpec model = SmallGpt(6);
  const Topology topology = NodeOf(2);
  v1::PlanPayload payload = PayloadOf(TwoRanks(), model, topology);
  auto& runs = *payload.mutable_stages(0)->mutable_layer_runs();
  runs.RemoveLast();
  EXPECT_EQ(Check(payload, model, topology).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckedPlan, ComparesTheDeviceOfEveryRank) {
  const CheckedPlan checked = CheckedFrom(TwoRanks(), SmallGpt(6));
  const Bytes memory = Bytes::Of(int64_t{1} << 30);
  EXPECT_OK(checked.CheckDevice(1, 2, {.kind = "CPU test", .memory = memory}));
  EXPECT_EQ(FieldOf(checked.CheckDevice(1, 2, {.kind = "CPU other", .memory = memory})),
            "node_groups[0].device_kind");
  EXPECT_EQ(FieldOf(checked.CheckDevice(
                0, 2, {.kind = "CPU test", .memory = Bytes::Of(int64_t{900} << 20)})),
            "node_groups[0].device_memory_bytes");
  EXPECT_EQ(FieldOf(checked.CheckDevice(0, 3, {.kind = "CPU test", .memory = memory})),
            "device_count");
}

}  // namespace
}  // namespace parplan
