// A plan as planctl shows it, wherever it came from: a server, an envelope, an
// unsigned file, a search in this process, another planner's file.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/report/report.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/plan.h"
#include "planner/model/planning_result.h"
#include "planner/model/search_summary.h"

namespace parplan::planctl {

// `PlanPayload.planner` of a plan that no planner of ours made.
inline constexpr char kGivenPlanner[] = "given";

// Plan and prediction as values, and the payload they came from.
struct PlanView {
  v1::PlanPayload payload;
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Filled in when a planner was run for this view.
  std::optional<double> cpu_seconds;
  std::optional<double> wall_seconds;
  std::vector<v1::PlannerComparison> comparisons;
  // The next best plans, and those from the fastest to the smallest; where asked for.
  std::vector<PlanBeside> alternatives;
  std::vector<PlanBeside> memory_front;
  // What the planner says of its method.
  std::vector<std::string> notes;
  // `llama2-7b`, where known.
  std::string model_id;
  // `8 x NVIDIA A100-SXM4-40GB`, where known.
  std::string devices;
  // What is known of the signature, one sentence; empty for unsigned plans.
  std::string signature;
  bool from_cache = false;
};

// The view of a payload. INVALID_ARGUMENT (PAYLOAD_MALFORMED).
absl::StatusOr<PlanView> ViewOfPayload(const v1::PlanPayload& payload);

PlanBeside RivalOf(const PredictedPlan& rival);

// The view of a plan that a server gave. The envelope inside is parsed, not
// verified. INVALID_ARGUMENT (PAYLOAD_MALFORMED), also for a plan beside it.
absl::StatusOr<PlanView> ViewOfPlan(const v1::Plan& plan);

// The view of a file: a DSSE envelope in JSON, or an unsigned payload in proto
// JSON. The signature is not verified, and `PlanView::signature` says so.
absl::StatusOr<PlanView> ViewOfFile(absl::string_view text, const std::string& path);

// The view as lines for a terminal: figures, stages with their layer runs and
// memory items, what limits it, plans beside it, rivals, what rests on no measurement.
std::string PlanText(const PlanView& view);

// The view as one JSON object; docs/planctl.md describes each member.
std::string PlanJson(const PlanView& view);

// The view as a page.
std::string PlanHtml(const PlanView& view);

// Alternatives, front and notes as tables and lines for a terminal; empty where there are
// none.
std::string BesideText(const PlanView& view);

// Rivals as a table for a terminal, and as a JSON array.
std::string ComparisonText(const std::vector<v1::PlannerComparison>& comparisons);
std::string ComparisonJson(const std::vector<v1::PlannerComparison>& comparisons);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_VIEW_H_
