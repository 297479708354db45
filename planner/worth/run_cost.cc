#include "planner/worth/run_cost.h"

#include <cmath>
#include <cstddef>

#include "base/error.h"

namespace parplan {
namespace {

constexpr double kSecondsPerHour = 3600.0;

// Returns the watts of all devices of a plan, averaged over its step, and of the spare ones.
double MeanWatts(const DeviceTerms& terms, int64_t spare_device_count, const PredictedPlan& plan) {
  const double working = *terms.power_watts;
  const double waiting = terms.idle_power_watts.value_or(working);
  double watts = static_cast<double>(spare_device_count) * waiting;
  for (size_t i = 0; i < plan.prediction.stages.size(); ++i) {
    const double idle = plan.prediction.stages[i].idle_ratio;
    watts += plan.plan.stages[i].rank_count * ((1.0 - idle) * working + idle * waiting);
  }
  return watts;
}

}  // namespace

absl::StatusOr<RunCost> CostOfRun(int64_t step_count, const DeviceTerms& terms,
                                  int64_t spare_device_count, const PredictedPlan& plan) {
  const auto steps = static_cast<double>(step_count);
  const auto paid = static_cast<double>(plan.plan.device_count + spare_device_count);
  const auto money_of = [&](Seconds time) {
    return terms.price_per_device_hour * (paid * (time.value() / kSecondsPerHour));
  };
  RunCost cost;
  cost.step_count = step_count;
  cost.time = plan.prediction.step * steps;
  cost.time_upper = plan.prediction.step_upper * steps;
  cost.device_hours = paid * (cost.time.value() / kSecondsPerHour);
  cost.money = money_of(cost.time);
  cost.money_upper = money_of(cost.time_upper);
  if (terms.power_watts.has_value()) {
    cost.energy_joules = MeanWatts(terms, spare_device_count, plan) * cost.time.value();
  }
  for (const double value : {cost.time.value(), cost.time_upper.value(), cost.device_hours,
                             cost.money, cost.money_upper, cost.energy_joules.value_or(0.0)}) {
    if (!std::isfinite(value)) {
      return FieldError(Reason::kSpecInvalid, "money",
                        "costs more than a double holds; the step of the plan is absurdly long");
    }
  }
  return cost;
}

}  // namespace parplan
