// The answer of one planner in a comparison of planners. Called by solve/compare_planners.

#ifndef PARPLAN_PROTO_WIRE_COMPARISON_WIRE_H_
#define PARPLAN_PROTO_WIRE_COMPARISON_WIRE_H_

#include <string>

#include "parplan/v1/plan.pb.h"
#include "planner/model/planning_result.h"

namespace parplan {

// Returns the message of one planner's answer: the plan's step, throughput, memory and gist; if
// nothing fits, the least memory of a device, and the least number of devices (0: unknown), with
// which a plan would; `stopped_early` if a limit came before the first plan.
v1::PlannerComparison ComparisonToProto(const std::string& planner, const PlanningResult& result);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_COMPARISON_WIRE_H_
