// Shows a plan as text for a terminal. `ShowView` (commands/show_view.h) and `planctl compare`
// print it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_TEXT_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_TEXT_H_

#include <string>
#include <vector>

#include "clients/planctl/view/plan_view.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::planctl {

// Returns the view as lines for a terminal: figures, stages with their layer runs and memory
// items, the limiting resource, all of `BesideText`, rivals, and the values without a measurement.
// REQUIRES, unchecked: a view of one of `ViewOf...` (plan_view.h), whose payload has the stages and
// layer runs of its plan, and whose prediction has an entry for each pipeline rank.
std::string PlanText(const PlanView& view);

// Returns alternatives, Pareto front and notes as tables and lines for a terminal; empty if there
// are none.
std::string BesideText(const PlanView& view);

// Returns rivals as a table for a terminal; its heading alone if there are none.
std::string ComparisonText(const std::vector<v1::PlannerComparison>& comparisons);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_PLAN_TEXT_H_
