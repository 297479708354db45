// Explains in this process why a plan was chosen and not another.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_EXPLAINER_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_EXPLAINER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/planctl/offline/local_search.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/explain_plan.h"
#include "planner/model/calibration.h"
#include "planner/model/plan.h"

namespace parplan::planctl {

// The question of a plan: the arguments of `EvaluateOffline`. A `spec` without batch gets that of
// the plan.
struct ExplainContext {
  v1::PlanSpec spec;
  std::vector<v1::Profile> profiles;
  std::shared_ptr<const Calibration> calibration;
};

// Compares the plan with another for the same model and cluster, whose batch may differ. The errors
// of `EvaluateOffline` for either plan.
absl::StatusOr<PlanExplanation> ExplainOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan& rival);

// Why the plan of another planner was not chosen.
struct WhyNot {
  std::string planner;
  // The comparison with its best plan; absent if none fits.
  std::optional<PlanExplanation> explanation;
  // If nothing fits: the terms of its plan that needs the least memory, predicted for the devices
  // there are, and the smallest memory and number of devices that would suffice.
  std::optional<PlanTerms> smallest;
  Bytes smallest_device_memory;
  std::optional<int> smallest_device_count;
  // Whether it has no plan for these devices, heads and batch, whatever the memory.
  bool has_no_candidates = false;
  // Whether a limit ended its search before any plan was found.
  bool stopped_early = false;
};

// Runs `planner` on the question of `context` under its limits. The errors of `EvaluateOffline` for
// the plan, and of `FindPlan` except NO_FEASIBLE_PLAN, which is an answer.
absl::StatusOr<WhyNot> WhyNotOffline(const ExplainContext& context, const Plan& plan,
                                     const std::string& planner, const SearchWatch& watch = {});

// Returns what 10 % more of each resource would gain, planning again with the planner that
// `context.spec.options` names. The errors of `WhyNotOffline`.
absl::StatusOr<std::vector<Sensitivity>> SensitivitiesOffline(const ExplainContext& context,
                                                              const Plan& plan,
                                                              const SearchWatch& watch = {});

// The answer of `planctl explain`, without the plan itself.
struct ExplainAnswer {
  std::optional<PlanExplanation> against;
  std::vector<WhyNot> why_not;
  std::vector<Sensitivity> sensitivities;
};

// Return the answer as tables for a terminal, and as one JSON object (docs/planctl.md).
std::string ExplainText(const ExplainAnswer& answer);
std::string ExplainJson(const ExplainAnswer& answer);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_EXPLAINER_H_
