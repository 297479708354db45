// Plans, predictions and search summaries of the contract and of the planner.
//
// Times travel as nanoseconds, so a prediction that went there and back differs
// by up to half a nanosecond in each time; everything else is exact.

#ifndef PARPLAN_PROTO_WIRE_PLAN_WIRE_H_
#define PARPLAN_PROTO_WIRE_PLAN_WIRE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/model/search_summary.h"

namespace parplan {

// Fills in what the planner decided and expects: fields 12 to 20 of the
// payload, `device_count` to `optimizer`. `model` is the one planned for: its
// ids name the layers. Identity, digests and times are for the caller, and so
// is `search` where it has clocks to add (`SearchSummaryToProto`).
// REQUIRES: the layers of `plan` are layers of `model`.
void FillPayload(const Plan& plan, const Prediction& prediction, const SearchSummary& search,
                 const ModelSpec& model, v1::PlanPayload* payload);

// A plan beside the one that was signed. `model` as above, and the same is required.
v1::RivalPlan RivalPlanToProto(const PredictedPlan& rival, const ModelSpec& model);

// The plan of a payload. INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming the field
// for a payload that is no plan: no stage, ranks or layers that do not follow
// each other from 0, degrees below 1 or whose product is not the ranks of the
// stage, unknown enum values, a batch that its micro-batch count does not
// divide. Whether it answers a problem is for `CheckPlanStructure` to say.
absl::StatusOr<Plan> PlanFromPayload(const v1::PlanPayload& payload);

// One strategy; `field` names it in errors (PAYLOAD_MALFORMED).
absl::StatusOr<Strategy> StrategyFromProto(const v1::Strategy& message, absl::string_view field);
v1::Strategy StrategyToProto(const Strategy& strategy);

v1::Prediction PredictionToProto(const Prediction& prediction);

// INVALID_ARGUMENT (PAYLOAD_MALFORMED) with the path of the field below `field`
// for a negative time or size, a ratio that is not finite, an item of unknown
// kind or named twice, or a peak that is not the sum of its items.
absl::StatusOr<Prediction> PredictionFromProto(const v1::Prediction& message,
                                               absl::string_view field = "prediction");

// `cpu` and `wall` are the clocks of the caller; the planner has none.
v1::SearchSummary SearchSummaryToProto(const SearchSummary& summary, Seconds cpu = Seconds(),
                                       Seconds wall = Seconds());

// The clocks are left out. INVALID_ARGUMENT (PAYLOAD_MALFORMED) with the path
// of the field below `field` for unknown enum values or negative counts.
absl::StatusOr<SearchSummary> SearchSummaryFromProto(const v1::SearchSummary& message,
                                                     absl::string_view field = "search");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PLAN_WIRE_H_
