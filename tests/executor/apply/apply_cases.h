// Signed plans for tests of what applies them.

#ifndef PARPLAN_TESTS_EXECUTOR_APPLY_APPLY_CASES_H_
#define PARPLAN_TESTS_EXECUTOR_APPLY_APPLY_CASES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "executor/apply/checked_plan.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/topology.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// The global batch size of plans that are applied.
inline constexpr int64_t kAppliedBatch = 24;

// One node of `device_count` devices `CPU test`.
Topology NodeOf(int device_count);

// The payload of `plan`, issued at IssueTime() for the cluster of `topology`.
v1::PlanPayload PayloadOf(const Plan& plan, const ModelSpec& model, const Topology& topology);

// Signed by a key, and verified with it.
VerifiedPlan VerifiedFrom(const v1::PlanPayload& payload);

// All of the above.
CheckedPlan CheckedFrom(const Plan& plan, const ModelSpec& model, int64_t generation = 0);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_APPLY_APPLY_CASES_H_
