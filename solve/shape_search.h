// One shape: a search for each number of devices of each offer, and what is recommended. The server
// (server/core/shape_core.h) and planctl in its own process answer with it, so both answer alike.

#ifndef PARPLAN_SOLVE_SHAPE_SEARCH_H_
#define PARPLAN_SOLVE_SHAPE_SEARCH_H_

#include <functional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"
#include "proto/wire/rules_wire.h"
#include "solve/money_answer.h"

namespace parplan {

// The answer for one number of devices.
struct ShapeTry {
  std::variant<PlanFound, NothingFits> result;
  // Whether no limit ended the search.
  bool is_complete = false;
};

// Plans for one number of devices of an offer. Errors of the reasons PROFILE_MISSING,
// NO_FEASIBLE_PLAN, SEARCH_TIMED_OUT and SEARCH_OUT_OF_MEMORY make an option without a plan; any
// other, and one without a reason, ends the shape.
using TryDeviceCount =
    std::function<absl::StatusOr<ShapeTry>(const v1::DeviceOffer& offer, int device_count)>;

// A shape, and whether every search ended by itself.
struct SearchedShape {
  v1::ShapePlanResponse response;
  bool is_complete = true;
};

// Returns the rules with which each number of devices is searched: for one plan, unless `options`
// ask for a robust one or `weighs_money` for several. Never with a memory front.
PlanningRules RulesOfShape(const PlanningOptions& options, bool weighs_money);

// Calls `try_count` for every count of every offer, in order (`DeviceCounts`), on the calling
// thread, and makes the response, without `from_cache`. `money` may be null; otherwise it is filled
// with the plans, and the response has its answer unless nothing fits.
//
// Errors: those of `try_count` that end the shape; FAILED_PRECONDITION (PROFILE_MISSING) with what
// is missing if measurements are missing for every count; a SEARCH_TIMED_OUT or
// SEARCH_OUT_OF_MEMORY of `try_count` if no count has a plan; those of `MoneyTable::Add`. That
// nothing fits is an answer. REQUIRES, unchecked: the offers passed `CheckOffer`.
absl::StatusOr<SearchedShape> SearchShapes(const std::vector<v1::DeviceOffer>& offers,
                                           const TryDeviceCount& try_count, MoneyTable* money);

}  // namespace parplan

#endif  // PARPLAN_SOLVE_SHAPE_SEARCH_H_
