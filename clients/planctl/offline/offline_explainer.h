// Why a plan and not another, in this process.

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

// What a plan is explained with: as the arguments of `EvaluateOffline`. A `spec` without
// batch has that of the plan.
struct ExplainContext {
  v1::PlanSpec spec;
  std::vector<v1::Profile> profiles;
  std::shared_ptr<const Calibration> calibration;
};

// The plan beside another for the same model and cluster, which may have another batch.
// The errors of `EvaluateOffline` for either.
absl::StatusOr<PlanExplanation> ExplainOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan& rival);

// Why not what another planner would do.
struct WhyNot {
  std::string planner;
  // Its best plan beside this one; absent where it has none that fits.
  std::optional<PlanExplanation> explanation;
  // Where nothing fits: its plan that needs least memory, under the memory there is;
  // what would do.
  std::optional<PlanTerms> smallest;
  Bytes smallest_device_memory;
  std::optional<int> smallest_device_count;
  // It has no plan for these devices, heads and batch, whatever their memory.
  bool has_no_candidates = false;
  // A limit ended its search before any plan was found.
  bool stopped_early = false;
};

// Runs `planner` on the question of `context` under its limits. The errors of
// `EvaluateOffline` for the plan and of `FindPlan`, but for NO_FEASIBLE_PLAN, which is an
// answer.
absl::StatusOr<WhyNot> WhyNotOffline(const ExplainContext& context, const Plan& plan,
                                     const std::string& planner, const SearchWatch& watch = {});

// What 10 % more of each resource would buy, replanned by the planner that
// `context.spec.options` names. Errors as of `WhyNotOffline`.
absl::StatusOr<std::vector<Sensitivity>> SensitivitiesOffline(const ExplainContext& context,
                                                              const Plan& plan,
                                                              const SearchWatch& watch = {});

// What `planctl explain` answers besides the plan itself.
struct ExplainAnswer {
  std::optional<PlanExplanation> against;
  std::vector<WhyNot> why_not;
  std::vector<Sensitivity> sensitivities;
};

// The answer as tables for a terminal, and as one JSON object (docs/planctl.md).
std::string ExplainText(const ExplainAnswer& answer);
std::string ExplainJson(const ExplainAnswer& answer);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_EXPLAINER_H_
