// The choice among plans by time, money and energy: those that no other beats, the cheapest in
// time, and the fastest for a budget. `MoneyTable` (solve/money_answer.h) calls it.
//
//   const std::vector<int> front = MoneyFront(plans, /*with_energy=*/false);
//   const MoneyChoice choice = ChooseByMoney(plans, limits);
//   if (choice.chosen.has_value()) Take(plans[*choice.chosen]);
//
// No answer depends on the order of `plans`, up to plans that are equal in every member.

#ifndef PARPLAN_PLANNER_WORTH_WEIGH_PLANS_H_
#define PARPLAN_PLANNER_WORTH_WEIGH_PLANS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "planner/model/money_question.h"
#include "planner/worth/run_cost.h"

namespace parplan {

// One plan that is weighed.
struct WeighedPlan {
  RunCost cost;
  int device_count = 0;
  // Separates plans that are equal in all else, for example kind of device and gist.
  std::string name;
};

// Lists the indices of the plans that no other dominates. A plan dominates another if it is at
// least as good in time, money and, `with_energy`, energy, and better in one. Plans that are equal
// in all of these are all listed. Sorted by time, money, energy, devices and name. REQUIRES: with
// energy every plan has one; aborts otherwise. O(n log n) time.
std::vector<int> MoneyFront(absl::Span<const WeighedPlan> plans, bool with_energy);

// Returns whether a run meets deadline and budget.
bool MeetsLimits(const RunCost& cost, const MoneyLimits& limits);

// The plans to take. All members are indices.
struct MoneyChoice {
  // The cheapest and the fastest of the plans that meet all limits; absent if none does. Between
  // plans of equal money the faster one counts, between plans of equal time the cheaper one, then
  // less energy, fewer devices and the name.
  std::optional<int> cheapest;
  std::optional<int> fastest;
  // The one to take: the fastest if there is a budget and no deadline, else the cheapest.
  std::optional<int> chosen;
  // If no plan meets the limits: the fastest of all plans if none meets the deadline, the cheapest
  // of all if none meets the budget, and both if each limit is met by some plan. By the upper ends
  // if the limits use them.
  std::optional<int> nearest_deadline;
  std::optional<int> nearest_budget;
};

// Chooses among `plans`. With a longer deadline or a larger budget more plans meet the limits, so
// the cheapest costs no more and the fastest takes no longer. Everything is absent without plans.
MoneyChoice ChooseByMoney(absl::Span<const WeighedPlan> plans, const MoneyLimits& limits);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_WORTH_WEIGH_PLANS_H_
