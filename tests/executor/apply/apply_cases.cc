#include "tests/executor/apply/apply_cases.h"

#include <utility>

#include "base/check.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"
#include "tests/proto/envelope/plan_fixture.h"

namespace parplan {

Topology NodeOf(int device_count) {
  absl::StatusOr<Topology> topology =
      Topology::Create("tests",
                       {{.node_group_id = "all",
                         .device_kind = "CPU test",
                         .node_count = 1,
                         .devices_per_node = device_count,
                         .device_memory = Bytes::Of(int64_t{1} << 30)}},
                       {{.tier_id = "node", .reach_device_count = device_count}});
  PARPLAN_CHECK(topology.ok());
  return *std::move(topology);
}

v1::PlanPayload PayloadOf(const Plan& plan, const ModelSpec& model, const Topology& topology) {
  v1::PlanPayload payload;
  Prediction prediction;
  prediction.step = Seconds::Of(0.25);
  prediction.stages.resize(plan.pipeline_parallel_degree());
  FillPayload(plan, prediction, SearchSummary(), model, &payload);
  payload.set_plan("clusters/tests/plans/p1");
  payload.set_cluster("tests");
  payload.set_topology_digest(TopologyDigest(topology));
  payload.set_model_digest(ModelDigest(model));
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(IssueTime()));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(IssueTime()) + 86400);
  return payload;
}

VerifiedPlan VerifiedFrom(const v1::PlanPayload& payload) {
  const PrivateKey key = FirstKey();
  absl::StatusOr<VerifiedPlan> verified =
      PlanVerifier(Trusting({&key}))
          .Verify(Sign(payload, {&key}), ExpectedAudience(), IssueTime() + absl::Hours(1));
  PARPLAN_CHECK(verified.ok());
  return *std::move(verified);
}

CheckedPlan CheckedFrom(const Plan& plan, const ModelSpec& model, int64_t generation) {
  const Topology topology = NodeOf(plan.device_count);
  v1::PlanPayload payload = PayloadOf(plan, model, topology);
  payload.set_generation(generation);
  absl::StatusOr<CheckedPlan> checked = CheckedPlan::Create(VerifiedFrom(payload), model, topology);
  PARPLAN_CHECK(checked.ok());
  return *std::move(checked);
}

}  // namespace parplan
