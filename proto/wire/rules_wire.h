// `PlanningOptions` of the contract: the rules of the question, the planner
// asked, and the limits of the search.

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

// The planner asked when a request names none.
inline constexpr char kDefaultPlanner[] = "exact";

// `v1::PlanningOptions` with its defaults filled in.
struct PlanningOptions {
  // Part of the question.
  PlanningRules rules;
  // A name for `FindPlan`, which knows those there are. Part of the question.
  std::string planner = kDefaultPlanner;
  // 0: no limit.
  int64_t max_state_count = 0;
  // Absent: the server's limit.
  std::optional<absl::Duration> search_time_limit;
  bool compare_baselines = false;
  friend bool operator==(const PlanningOptions&, const PlanningOptions&) = default;
};

// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field`: a
// negative limit, a ratio outside [0, 1), a time limit that is not above 0, a
// schedule, runtime, target or dimension that is unknown. Any planner name of up to 63
// characters passes. What depends on the batch is for `PlanningProblem::Create` to refuse.
absl::StatusOr<PlanningOptions> OptionsFromProto(const v1::PlanningOptions& message,
                                                 absl::string_view field = "options");

// INVALID_ARGUMENT (SPEC_INVALID) naming `field` for a number that is no
// schedule of this release; UNSPECIFIED is 1F1B. (In `OptionsFromProto` it is no rule.)
absl::StatusOr<Schedule> ScheduleFromProto(v1::Schedule schedule, absl::string_view field);

v1::Schedule ScheduleToProto(Schedule schedule);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_RULES_WIRE_H_
