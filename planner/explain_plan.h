// Why this plan and not that: where their times and memory differ, what binds each, and
// what a little more of anything would buy.

#ifndef PARPLAN_PLANNER_EXPLAIN_PLAN_H_
#define PARPLAN_PLANNER_EXPLAIN_PLAN_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/cost/cost_model.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The time of one step, taken apart. The parts add up to it.
struct StepTerms {
  // The device that does most (of equal ones the first): what it does and waits for is
  // told, over all micro-batches.
  int stage_index = 0;
  TimeItems busy;
  // Waiting for other stages, were messages free and gradients never exchanged.
  Seconds bubble;
  // What messages between stages add to that; then gradient synchronisation, then the
  // optimizer's step. (With several virtual stages a device the last two are told apart
  // in the device's own proportion.)
  Seconds messages;
  Seconds gradient_sync;
  Seconds optimizer_step;
  // Of the step, outside the layers.
  Seconds overhead;

  Seconds Total() const {
    return busy.Total() + bubble + messages + gradient_sync + optimizer_step + overhead;
  }
};

// The memory of the fullest device: the one that is trusted least to stay within its
// bounds, of equal ones the first.
struct MemoryTerms {
  int stage_index = 0;
  MemoryItems items;
  // Not exceeded at the accepted risk.
  Bytes upper;
  // Of what is usable; below 0 where the plan lacks memory.
  Bytes left;
  // Memory is what keeps plans like this one from using more of it: less is left than
  // `kBindingShare` of what is usable.
  bool binds = false;
};
inline constexpr double kBindingShare = 0.05;

// A plan taken apart.
struct PlanTerms {
  Plan plan;
  Prediction prediction;
  StepTerms step;
  MemoryTerms memory;
};

// REQUIRES: `plan` satisfies `CheckPlanStructure` for the problem.
PlanTerms TermsOf(const PlanningProblem& problem, const CostModel& costs, const Plan& plan);

// Two plans, term beside term.
struct PlanExplanation {
  PlanTerms plan;
  PlanTerms rival;
  // Time a sample of the rival over that of the plan: above 1 where the plan is faster.
  double time_ratio = 1.0;
  // One part of a step of each, the rival's for as many samples as the plan's step has.
  struct Difference {
    // For example `recompute`, `waiting for other stages`.
    absl::string_view name;
    Seconds plan;
    Seconds rival;
  };
  // Those that are not 0 in both, by how much they differ, the largest first; then in the
  // order of `StepTerms`. Their sums differ by the whole difference.
  std::vector<Difference> differences;
};
PlanExplanation Explain(PlanTerms plan, PlanTerms rival);

// Both plans under one problem. REQUIRES: as of `TermsOf`, for each.
PlanExplanation ExplainAgainst(const PlanningProblem& problem, const CostModel& costs,
                               const Plan& plan, const Plan& rival);

// Something there could be more of.
enum class Resource {
  kMemory,              // usable memory of every device
  kIntraNodeBandwidth,  // links inside a node
  kInterNodeBandwidth,  // links between nodes
  kDevices,             // speed of the devices: computing and device memory
};
inline constexpr int kResourceCount = 4;
absl::string_view ResourceName(Resource resource);

// Whether more of it can change any plan of the problem: there are links of that kind.
bool HasResource(const PlanningProblem& problem, Resource resource);

// The same question with `factor` times as much of a resource: in measurements and in
// data sheets. Latencies stay: of a measured collective the time of its smallest message
// is taken for one, unless that message is the only one; of a data sheet, its own. The
// profile keeps its digest, so the problem is not one to sign plans for.
// REQUIRES: factor >= 1.
PlanningProblem WithMore(const PlanningProblem& problem, Resource resource, double factor);

// What more of a resource would buy.
struct Sensitivity {
  Resource resource = Resource::kMemory;
  double factor = 1.0;
  // The step of the same plan with it.
  Seconds kept_step;
  // The best plan that the planner found with it; absent where a limit ended its search.
  std::optional<PredictedPlan> best;
  // Time a sample saved by the better of both, as a share of that without: 0 where
  // neither is faster.
  double gain = 0.0;
  // The best plan is another one than the plan without.
  bool plan_changes = false;
};

// Plans a problem; `FindPlan` with a planner's name and a control, or a stand-in.
using PlannerOfProblem = std::function<absl::StatusOr<PlanningResult>(const PlanningProblem&)>;

// Asks `planner` again with `factor` times as much of every resource there is, in their
// order. `plan` answers `problem`; it is not searched for. The planner's errors.
absl::StatusOr<std::vector<Sensitivity>> Sensitivities(const PlanningProblem& problem,
                                                       const Plan& plan, double factor,
                                                       const PlannerOfProblem& planner);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_EXPLAIN_PLAN_H_
