// A plan to be shown, whether it came from a server, an envelope, an unsigned file, a search in
// this process, or another planner's file. The views in this folder show one, and `RenderReport`
// makes its page.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/report/report.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/model/search_summary.h"

namespace parplan::planctl {

// The value of `PlanPayload.planner` for a plan that none of parplan's planners made.
inline constexpr char kGivenPlanner[] = "given";

// A plan, its prediction, and the payload they came from.
struct PlanView {
  v1::PlanPayload payload;
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Processor and wall time of the search; present for a plan from a server or from a search in
  // this process.
  std::optional<double> cpu_seconds;
  std::optional<double> wall_seconds;
  std::vector<v1::PlannerComparison> comparisons;
  // The next best plans, and the Pareto front from the fastest plan to the smallest; empty unless
  // they were asked for.
  std::vector<PlanBeside> alternatives;
  std::vector<PlanBeside> memory_front;
  // Remarks of the planner on its method, one sentence each.
  std::vector<std::string> notes;
  // The cost of runs by this and other numbers of devices; absent unless it was asked for.
  std::optional<v1::MoneyAnswer> money;
  // For example `llama2-7b`; empty if unknown.
  std::string model_id;
  // The devices of the first node group, for example `8 × NVIDIA A100-SXM4-40GB`; empty if unknown.
  std::string devices;
  // One sentence about the signature; empty for unsigned plans.
  std::string signature;
  bool from_cache = false;
};

// Returns the view of a payload; what a payload does not have (times, rivals, names) is empty.
// INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming the field if it is no plan, has no prediction, or its
// prediction has no step time or not one entry for each pipeline rank.
absl::StatusOr<PlanView> ViewOfPayload(const v1::PlanPayload& payload);

// Returns a predicted plan in the form of the report.
PlanBeside RivalOf(const PredictedPlan& rival);

// Returns the view of a plan from a server. The envelope inside is parsed, not verified.
// INVALID_ARGUMENT (PAYLOAD_MALFORMED) if the plan or one of those beside it can't be parsed, or
// for the errors of ViewOfPayload.
absl::StatusOr<PlanView> ViewOfPlan(const v1::Plan& plan);

// Returns the view of a file: a DSSE envelope in JSON, or an unsigned payload in proto
// JSON. The signature is not verified, and `PlanView::signature` says so. INVALID_ARGUMENT:
// SPEC_INVALID naming `path` for a text that is neither, else PAYLOAD_MALFORMED.
absl::StatusOr<PlanView> ViewOfFile(absl::string_view text, const std::string& path);

// Returns the payload in a file of either form, which `PlanFromPayload` reads whether or not it has
// a prediction. The signature is not verified. Returns the errors of ViewOfFile.
absl::StatusOr<v1::PlanPayload> PayloadOfFile(absl::string_view text, const std::string& path);

// Returns the payload of a plan without a prediction; `planner` is kGivenPlanner. REQUIRES: the
// layers of `plan` are layers of `model`; aborts otherwise.
v1::PlanPayload GivenPayload(const Plan& plan, const ModelSpec& model,
                             absl::string_view runtime_id);

// Returns the view as an HTML page.
std::string PlanHtml(const PlanView& view);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_
