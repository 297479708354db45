// Shows a plan as JSON with stable members, which docs/planctl.md describes. Times are seconds,
// sizes bytes, both as numbers. `ShowView` (commands/show_view.h) and `planctl compare` print it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_JSON_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_JSON_H_

#include <string>
#include <vector>

#include "clients/planctl/view/plan_view.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::planctl {

// Returns the view as one object.
std::string PlanJson(const PlanView& view);

// Returns rivals as an object whose member `comparisons` is the array of them.
std::string ComparisonJson(const std::vector<v1::PlannerComparison>& comparisons);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_JSON_H_
