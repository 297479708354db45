// Shows what to measure next. `ExplainText` and `ExplainJson` call it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_MEASURE_NEXT_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_MEASURE_NEXT_VIEW_H_

#include <string>

#include <nlohmann/json.hpp>

#include "planner/worth/measure_next.h"

namespace parplan::planctl {

// Returns the measurements to make, the most useful first, with the command that makes each and the
// entries of a profile that it writes, as text for a terminal and as an object. `has_rival` says
// whether they are to decide between two plans.
std::string MeasureNextText(const MeasureNext& next, bool has_rival);
nlohmann::ordered_json MeasureNextObject(const MeasureNext& next, bool has_rival);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_MEASURE_NEXT_VIEW_H_
