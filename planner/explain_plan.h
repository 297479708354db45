// Comparison of two plans: where their times and memory differ, what limits each, and what more of
// a resource would gain. `planctl explain` calls it (clients/planctl/offline/offline_explainer.h).
// Pure.

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

// The time of one step, split into terms that add up to it.
struct StepTerms {
  // The device with the most work, by its position in the pipeline, from 0 (the first of equals).
  // Work is that of its passes over all micro-batches, its gradient synchronisation and its
  // optimizer's step. The terms are the work and the waiting time of this device.
  int stage_index = 0;
  // Its passes over all micro-batches.
  TimeItems busy;
  // Waiting for other stages, if messages were free and gradients never exchanged.
  Seconds bubble;
  // Additional waiting for messages between stages, then gradient synchronisation, then the
  // optimizer's step. (With several virtual stages per device the last two are separated in the
  // device's own proportion.) Each is the time by which the whole step grows, and 0 if that is only
  // rounding.
  Seconds messages;
  Seconds gradient_sync;
  Seconds optimizer_step;
  // Time of a step outside the layers.
  Seconds overhead;

  // Returns the time of the step.
  Seconds Total() const {
    return busy.Total() + bubble + messages + gradient_sync + optimizer_step + overhead;
  }
};

// The memory of the fullest device: the one with the highest upper bound, the first of equals.
struct MemoryTerms {
  // Position of the device in the pipeline, from 0, and its memory by kind.
  int stage_index = 0;
  MemoryItems items;
  // Upper bound of its memory at the accepted risk (`PlanningRules::out_of_memory_risk`).
  Bytes upper;
  // Usable memory less `upper`; negative if the plan needs more than there is.
  Bytes left;
  // Whether memory is what keeps similar plans from using more: less is left than `kBindingShare`
  // of the usable memory.
  bool binds = false;
};
// Not measured: chosen so that a plan with less than a twentieth of the memory left is reported as
// limited by memory.
inline constexpr double kBindingShare = 0.05;

// A plan with its terms.
struct PlanTerms {
  Plan plan;
  Prediction prediction;
  StepTerms step;
  MemoryTerms memory;
};

// Returns the terms of a plan. REQUIRES, unchecked: `CheckPlanStructure`
// (planner/check/plan_check.h) returns OK for it, and `costs` are those of `problem`.
PlanTerms TermsOf(const PlanningProblem& problem, const CostModel& costs, const Plan& plan);

// Two plans, compared term by term.
struct PlanExplanation {
  PlanTerms plan;
  PlanTerms rival;
  // Time per sample of the rival divided by that of the plan: above 1 if the plan is faster.
  double time_ratio = 1.0;
  // One part of each step; the rival's is scaled to as many samples as the plan's step has.
  struct Difference {
    // For example `recompute` or `waiting for other stages`; lives as long as the program.
    absl::string_view name;
    Seconds plan;
    Seconds rival;
  };
  // Parts that are above 0 in at least one of the two steps, by descending difference; then in the
  // order of `StepTerms`. They add up to the whole difference.
  std::vector<Difference> differences;
};
// Compares the terms of two plans, which may have different batches and be of different problems.
PlanExplanation Explain(PlanTerms plan, PlanTerms rival);

// A resource a cluster could have more of.
enum class Resource {
  kMemory,              // usable memory of every device
  kIntraNodeBandwidth,  // links inside a node
  kInterNodeBandwidth,  // links between nodes
  kDevices,             // speed of the devices: computing and the bandwidth of their memory
};
inline constexpr int kResourceCount = 4;
// Returns the name for people, for example `memory`; it lives as long as the program.
absl::string_view ResourceName(Resource resource);

// Returns whether more of the resource can change any plan of the problem: whether it has links of
// that kind, and true for memory and devices.
bool HasResource(const PlanningProblem& problem, Resource resource);

// Returns the same problem with `factor` times as much of a resource, in measurements and in data
// sheets. Latencies stay: for a measured collective the time of its smallest message is taken as
// the latency, unless it is the only message; for a data sheet its own latency. The profile keeps
// its digest, so plans for the result must not be signed. With several node groups, the memory of
// all becomes that of the smallest device, times `factor` for `kMemory`. REQUIRES: factor >= 1;
// aborts otherwise.
PlanningProblem WithMore(const PlanningProblem& problem, Resource resource, double factor);

// The gain from more of a resource.
struct Sensitivity {
  Resource resource = Resource::kMemory;
  // How many times as much of the resource there is.
  double factor = 1.0;
  // Step of the unchanged plan with it.
  Seconds kept_step;
  // The best plan the planner found with it; absent if it found none: nothing fits, or a limit
  // ended its search.
  std::optional<PredictedPlan> best;
  // Share of the time per sample, of the plan on the unchanged problem, that the better of the
  // unchanged and the best plan saves; 0 if neither is faster.
  double gain = 0.0;
  // Whether the best plan differs from the plan without the resource; false if there is no best.
  bool plan_changes = false;
};

// Plans a problem: `FindPlan` with a planner's name and a control, or a substitute. The problem
// lives only during the call.
using PlannerOfProblem = std::function<absl::StatusOr<PlanningResult>(const PlanningProblem&)>;

// Asks `planner` once for every resource that `HasResource`, with `factor` times as much of that
// one alone, on the calling thread and in the order of `Resource`; the result has one entry for
// each. The unchanged problem is not searched again. Returns the first error of `planner` or of
// `CostModel::Create`. REQUIRES: factor >= 1; aborts otherwise. REQUIRES, unchecked:
// `CheckPlanStructure` returns OK for `plan` and `problem`.
absl::StatusOr<std::vector<Sensitivity>> Sensitivities(const PlanningProblem& problem,
                                                       const Plan& plan, double factor,
                                                       const PlannerOfProblem& planner);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_EXPLAIN_PLAN_H_
