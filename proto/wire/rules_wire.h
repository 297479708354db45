// Conversion of `PlanningOptions` of the contract: the rules of the question, the name of the
// planner, and the limits of the search. The server and offline planning read the options of a
// question by it.

#ifndef PARPLAN_PROTO_WIRE_RULES_WIRE_H_
#define PARPLAN_PROTO_WIRE_RULES_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Planner of requests that name none.
inline constexpr char kDefaultPlanner[] = "exact";

// The plans that a robust plan is chosen from if the question does not say how many: the number is
// the contract's. Not measured: enough for a plan of each pipeline degree and tensor-parallel
// degree of one node.
inline constexpr int kRobustPlanCount = 16;

// `v1::PlanningOptions` with its defaults filled in.
struct PlanningOptions {
  // Part of the question.
  PlanningRules rules;
  // Name of a planner of `FindPlan`, which may be unknown. Part of the question.
  std::string planner = kDefaultPlanner;
  // Largest number of states that the search expands; 0 for no limit.
  int64_t max_state_count = 0;
  // Largest time of the search; absent for the server's limit, and for none in planctl.
  std::optional<absl::Duration> search_time_limit;
  // See `SearchControl::wanted_gap_ratio`.
  std::optional<double> wanted_gap_ratio;
  // Whether the baselines (`BaselineNames`) answer the question too.
  bool compare_baselines = false;
  // Whether the robust plan is wanted (`WithRobustPlan`, planner/worth/robust_plan.h), and the
  // alternatives it shall have then. `rules.top_plan_count` is then at least `kRobustPlanCount`, or
  // what the message says if that is above 1.
  bool wants_robust_plan = false;
  int robust_alternative_count = 0;
  friend bool operator==(const PlanningOptions&, const PlanningOptions&) = default;
};

// Returns the options of a message. A message without a runtime gets that of its target
// (`TargetLimits::runtime_id`), or without a target that of parplan. Other absent fields have the
// defaults of `PlanningRules` and `PlanningOptions`; 0 stands for absent, but is a value of the
// headroom, the probability of running out of memory, alpha and the wanted gap. INVALID_ARGUMENT
// (SPEC_INVALID) with the path of the field below `field` for a negative limit or count, a headroom
// outside [0, 1), a probability of running out of memory outside (0, 0.5], an alpha that is
// negative or not finite, a wanted gap outside [0, 1], a time limit that is not a Duration above 0,
// an unknown schedule, runtime, target, partitioner or dimension, and a planner name above 63
// characters; and a robust plan together with a memory front, or of another planner than `exact`.
// Accepts any other planner name. `PlanningProblem::Create` checks what depends on the
// batch.
absl::StatusOr<PlanningOptions> OptionsFromProto(const v1::PlanningOptions& message,
                                                 absl::string_view field = "options");

// Returns the planner's schedule; UNSPECIFIED is 1F1B. (In `OptionsFromProto` UNSPECIFIED is no
// rule.) INVALID_ARGUMENT (SPEC_INVALID) naming `field` for a number that this release does not
// know.
absl::StatusOr<Schedule> ScheduleFromProto(v1::Schedule schedule, absl::string_view field);

// Returns the number of the contract.
v1::Schedule ScheduleToProto(Schedule schedule);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_RULES_WIRE_H_
