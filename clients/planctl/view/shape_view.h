// Shows what numbers of devices can do and what runs by them cost. `planctl shape` prints it, and
// `planctl plan --money` the part about money.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_SHAPE_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_SHAPE_VIEW_H_

#include <string>

#include <nlohmann/json.hpp>

#include "parplan/v1/plan_service.pb.h"

namespace parplan::planctl {

// Return a shape as a table, with the table of `MoneyText` below it if money was asked for, and as
// one object, whose members docs/planctl.md describes.
std::string ShapeText(const v1::ShapePlanResponse& response);
std::string ShapeJson(const v1::ShapePlanResponse& response);

// Returns a table of plans with what a run by each costs: the front is marked by `+`, the plan to
// take by `*`. Below it are the cheapest and the fastest plan within the limits or, if no plan
// meets them, the reason, and how energy was estimated.
std::string MoneyText(const v1::MoneyAnswer& money);

// Returns the same as an object.
nlohmann::ordered_json MoneyJson(const v1::MoneyAnswer& money);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_SHAPE_VIEW_H_
