// Explains in this process why a plan was chosen and not another. `planctl explain` calls it.

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
#include "planner/cost/step_collectives.h"
#include "planner/explain_plan.h"
#include "planner/model/calibration.h"
#include "planner/model/parameter_parts.h"
#include "planner/model/plan.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "planner/worth/measure_next.h"

namespace parplan::planctl {

// The arguments of `EvaluateOffline` (offline_planner.h). Plans that are given are predicted at
// their own batch size; searches take that of `spec`, or that of the plan if `spec` has none.
struct ExplainContext {
  // The question, the measurements, and the calibration; null stands for `PublishedCalibration`.
  v1::PlanSpec spec;
  std::vector<v1::Profile> profiles;
  std::shared_ptr<const Calibration> calibration;
};

// Compares the plan with another for the same model and cluster, which may have another batch
// size. Returns the errors of `EvaluateOffline` for either.
absl::StatusOr<PlanExplanation> ExplainOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan& rival);

// The answer to "why not the plan of another planner?".
struct WhyNot {
  std::string planner;
  // Its best plan compared with this one; absent if none of its plans fits.
  std::optional<PlanExplanation> explanation;
  // If nothing fits: its plan that needs least memory, absent if a limit ended the search for it;
  // the memory of a device that would suffice; and the number of devices that would, if known.
  std::optional<PlanTerms> smallest;
  Bytes smallest_device_memory;
  std::optional<int> smallest_device_count;
  // Whether it has no plan for these devices, heads and batch, whatever the memory.
  bool has_no_candidates = false;
  // Whether a limit ended its search before any plan was found.
  bool stopped_early = false;
};

// Runs `planner` on the question of `context` under its limits, and if nothing fits once more,
// under the same limits, with the memory that would suffice. Returns the errors of
// `EvaluateOffline` for the plan, those of `OfflineProblem`, and those of `SearchHere` except
// NO_FEASIBLE_PLAN, which is an answer.
absl::StatusOr<WhyNot> WhyNotOffline(const ExplainContext& context, const Plan& plan,
                                     const std::string& planner, const SearchWatch& watch = {});

// Returns what 10 % more of each resource would gain, replanned by the planner that
// `context.spec.options` names. Returns the errors of `WhyNotOffline`.
absl::StatusOr<std::vector<Sensitivity>> SensitivitiesOffline(const ExplainContext& context,
                                                              const Plan& plan,
                                                              const SearchWatch& watch = {});

// Returns how `galvatron-bmw` divides layers into stages for the batch, pipeline degree and number
// of micro-batches of the plan, whoever made it. INVALID_ARGUMENT (SPEC_INVALID) if it has one
// stage, the rules of `context` leave one partition, or batch or schedule are others; otherwise the
// errors of `EvaluateOffline` for the plan.
absl::StatusOr<std::vector<ExplainedWalk>> WalksOffline(const ExplainContext& context,
                                                        const Plan& plan,
                                                        const SearchWatch& watch = {});

// Returns what to measure next (`FindMeasureNext`, planner/worth/measure_next.h): for the plan or,
// if `rival` is not null, to decide between the two. Returns the errors of `EvaluateOffline` for
// either.
absl::StatusOr<MeasureNext> MeasureNextOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan* rival);

// The collectives of one rank, from 0, in a step, priced for a runtime.
struct PricedCollectives {
  int rank = 0;
  std::string runtime_id;
  std::vector<StepCollective> rows;
};

// Lists the collectives that the prediction of the plan prices. INVALID_ARGUMENT (SPEC_INVALID) if
// the plan has no such rank; otherwise the errors of `EvaluateOffline` for the plan.
absl::StatusOr<PricedCollectives> CollectivesOffline(const ExplainContext& context,
                                                     const Plan& plan, int rank);

// The answer of `planctl explain` apart from the plan itself. A part that was not asked for is
// absent or empty.
struct ExplainAnswer {
  // The parameters of the model by part; the collectives of one rank; the comparison with another
  // plan; the answers for other planners; the gain from more of each resource; and the walks of
  // `galvatron-bmw`.
  std::optional<ParameterParts> parameters;
  std::optional<PricedCollectives> collectives;
  std::optional<PlanExplanation> against;
  std::vector<WhyNot> why_not;
  std::vector<Sensitivity> sensitivities;
  std::vector<ExplainedWalk> walks;
  // The measurements to make next for the plan, or to decide between it and the rival if there is
  // one.
  std::optional<MeasureNext> measure_next;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_EXPLAINER_H_
