// Time, money and energy of a whole run by one plan, from its prediction. `MoneyTable`
// (solve/money_answer.h) weighs the plans of a shape by it.

#ifndef PARPLAN_PLANNER_WORTH_RUN_COST_H_
#define PARPLAN_PLANNER_WORTH_RUN_COST_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/money_question.h"
#include "planner/model/planning_result.h"

namespace parplan {

// The cost of one run. All members are finite and at least 0.
struct RunCost {
  int64_t step_count = 0;
  // Time of all steps, and at the upper end of the range of the step.
  Seconds time;
  Seconds time_upper;
  // Hours of all devices that are paid for, those of the plan and the spare ones.
  double device_hours = 0.0;
  // Their price, and at the upper end of the time.
  double money = 0.0;
  double money_upper = 0.0;
  // Energy of these devices, in joules; absent if their power is unknown.
  std::optional<double> energy_joules;
  friend bool operator==(const RunCost&, const RunCost&) = default;
};

// Returns what `step_count` steps by a plan cost with `spare_device_count` further devices that are
// paid for and wait:
//
//   time    step_count * step
//   money   price * (devices + spare) * time
//   energy  time * (sum over devices of (busy * power + idle * idle power) + spare * idle power)
//
// where `idle` is `StagePrediction::idle_ratio` of the device's stage and `busy` is the rest of the
// step. Communication counts as busy, and if the power while waiting is unknown, waiting does too:
// the energy is then an upper estimate. The number is that of the devices alone, without
// processors, fans, networks and cooling.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `money` if a result is not finite, which a step of an
// absurd length causes. REQUIRES, unchecked: `step_count` is from 0 to `kMaxRunStepCount`,
// `spare_device_count` is at least 0, `terms` are from `DeviceTerms::Create`.
absl::StatusOr<RunCost> CostOfRun(int64_t step_count, const DeviceTerms& terms,
                                  int64_t spare_device_count, const PredictedPlan& plan);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_WORTH_RUN_COST_H_
