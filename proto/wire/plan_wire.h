// Conversion of plans, predictions and search summaries between the contract and the planner.
//
// Messages have times in nanoseconds, so a prediction that was converted there and back differs by
// up to half a nanosecond in each time, but not in the step and the bound of the search, which
// messages also have with all digits. Everything else is exact. The server, planctl and the
// programs that launch or run plans convert by it.

#ifndef PARPLAN_PROTO_WIRE_PLAN_WIRE_H_
#define PARPLAN_PROTO_WIRE_PLAN_WIRE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_summary.h"

namespace parplan {

// Fills in the decisions and predictions of the planner: fields 12 to 21 of the payload,
// `device_count` to `virtual_stage_count`, and `micro_batch_group_size`. `model` is the planned
// model; its ids name the layers. The caller sets identity, digests and times, and replaces
// `search` if it has processor and wall times to add (`SearchSummaryToProto`). REQUIRES: the layers
// of `plan` are layers of `model`; aborts otherwise. REQUIRES, unchecked: `payload` is not null.
void FillPayload(const Plan& plan, const Prediction& prediction, const SearchSummary& search,
                 const ModelSpec& model, v1::PlanPayload* payload);

// Says in `payload`, whose stages are filled in, what its layers with selective recomputation
// compute again; nothing if it has none. REQUIRES, unchecked: `payload` is not null.
void FillRecomputePolicy(SelectiveRecompute selective, v1::PlanPayload* payload);

// Returns the message of a plan that was not chosen. `model` and its requirement as in
// `FillPayload`.
v1::RivalPlan RivalPlanToProto(const PredictedPlan& rival, const ModelSpec& model);

// Returns the plan of a payload. INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming the field if there is
// no stage, the first or the last has no layers, ranks or layers are not consecutive from 0,
// `device_count` is not that of all ranks, the batch is below 1, degrees are below 1 or their
// product is not the number of ranks of the stage, a rank order does not name both axes, an enum
// value is unknown, the micro-batch count does not divide the batch, the virtual stages do not
// divide the stages or need another schedule or more devices in the pipeline, a
// `micro_batch_group_size` other than 0 has no virtual stages, is no larger than the pipeline
// degree or not one that `IsGroupSize` allows, or there are more than kMaxDeviceCount ranks, or
// kMaxLayerCount layers or stages; and what `StrategyFromProto` returns. A schedule that is
// UNSPECIFIED is 1F1B, and a `virtual_stage_count` of 0 is 1. Ranks begin at 0 again with each
// round of virtual stages. No other field is read, `layer_definition_id` included: whether the
// layers are those of a model is not checked here. `CheckPlanStructure` decides whether the plan
// answers a problem.
absl::StatusOr<Plan> PlanFromPayload(const v1::PlanPayload& payload);

// Returns one strategy. INVALID_ARGUMENT (PAYLOAD_MALFORMED) with the path of the field below
// `field` for degrees below 1 (0 means 1 for context and expert parallelism and for
// `context_exchange_degree`), more than kMaxDeviceCount ranks, experts that do not divide data
// times context parallelism or, with a tensor degree of their own, the ranks over that, such a
// degree that does not divide the ranks or is the layer's, Ulysses or all-gather without context
// parallelism, a `context_exchange_degree` above 1 without a ring or that is no divisor of the
// context-parallel degree below it, a rank order that does not name both axes, modules without
// their level or that level without modules, modules that are not ascending or are attention alone,
// and unknown enum values; those that are UNSPECIFIED have their default.
absl::StatusOr<Strategy> StrategyFromProto(const v1::Strategy& message, absl::string_view field);
// Returns the message of any strategy. `StrategyFromProto` returns the same value.
v1::Strategy StrategyToProto(const Strategy& strategy);

// Returns the message of any prediction, with times to the nanosecond.
v1::Prediction PredictionToProto(const Prediction& prediction);

// Returns the prediction of a message. INVALID_ARGUMENT (PAYLOAD_MALFORMED) with the path of the
// field below `field` for a negative time, size or count, a ratio that is not finite, an item of
// unknown kind or named twice, a stage's peak that is not the sum of its items, a bottleneck or
// confidence that is UNSPECIFIED or unknown, a range that ends before it begins, or a time in
// seconds that is neither 0 nor that of the Duration beside it. A range that is absent is the
// predicted value alone. Whether stages, peak and ranges agree with one another is not checked.
absl::StatusOr<Prediction> PredictionFromProto(const v1::Prediction& message,
                                               absl::string_view field = "prediction");

// Returns the message of a summary. `cpu` and `wall` are times that the caller measured, since the
// planner has no clock.
v1::SearchSummary SearchSummaryToProto(const SearchSummary& summary, Seconds cpu = Seconds(),
                                       Seconds wall = Seconds());

// Returns the summary of a message, without its times. INVALID_ARGUMENT (PAYLOAD_MALFORMED) with
// the path of the field below `field` for a missing termination, unknown enum values, negative
// counts or times, a gap that is not finite, or seconds that are not those of the Duration. A limit
// that is UNSPECIFIED is none.
absl::StatusOr<SearchSummary> SearchSummaryFromProto(const v1::SearchSummary& message,
                                                     absl::string_view field = "search");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PLAN_WIRE_H_
