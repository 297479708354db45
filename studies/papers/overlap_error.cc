#include "studies/papers/overlap_error.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {

bool MeasuredPlan::Decides() const {
  return std::abs(predicted_ms - predicted_without_slowdown_ms) > 2.0 * median_uncertainty_ms;
}

bool MeasuredPlan::SlowdownIsCloser() const {
  return std::abs(Error()) < std::abs(ErrorWithoutSlowdown());
}

absl::StatusOr<std::vector<MeasuredPlan>> ParseMeasuredPlans(absl::string_view text) {
  std::vector<MeasuredPlan> plans;
  try {
    for (const auto& row : nlohmann::json::parse(text.begin(), text.end())) {
      MeasuredPlan plan{
          .set = row.at("set"),
          .plan = row.at("plan"),
          .slowdown = SixDigits(row.at("slowdown")),
          .predicted_ms = SixDigits(row.at("predicted_ms")),
          .predicted_without_slowdown_ms = SixDigits(row.at("predicted_without_slowdown_ms")),
          .measured_ms = SixDigits(row.at("measured_ms")),
          .median_uncertainty_ms = SixDigits(row.at("median_uncertainty_ms")),
          .p10_ms = SixDigits(row.at("p10_ms")),
          .p90_ms = SixDigits(row.at("p90_ms"))};
      if (!(plan.measured_ms > 0.0)) {
        return FieldError(Reason::kSpecInvalid, "--runs", "`measured_ms` must be above 0");
      }
      plans.push_back(std::move(plan));
    }
  } catch (const std::exception& error) {
    return FieldError(
        Reason::kSpecInvalid, "--runs",
        absl::StrCat("must be a file that `prediction --results` wrote: ", error.what()));
  }
  if (plans.empty()) return FieldError(Reason::kSpecInvalid, "--runs", "has no plan");
  return plans;
}

std::vector<std::vector<MeasuredPlan>> BySet(const std::vector<MeasuredPlan>& plans) {
  std::vector<std::vector<MeasuredPlan>> sets;
  for (const MeasuredPlan& plan : plans) {
    const auto same = std::find_if(
        sets.begin(), sets.end(), [&plan](const auto& set) { return set.front().set == plan.set; });
    if (same == sets.end()) {
      sets.push_back({plan});
    } else {
      same->push_back(plan);
    }
  }
  return sets;
}

double MedianError(const std::vector<MeasuredPlan>& plans,
                   const std::function<double(const MeasuredPlan&)>& error) {
  PARPLAN_CHECK(!plans.empty());
  std::vector<double> errors;
  for (const MeasuredPlan& plan : plans) errors.push_back(std::abs(error(plan)));
  std::sort(errors.begin(), errors.end());
  const size_t middle = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2.0;
}

OverlapErrors OverlapErrorsOf(const std::vector<MeasuredPlan>& plans) {
  OverlapErrors errors;
  errors.median_with = MedianError(plans, [](const MeasuredPlan& plan) { return plan.Error(); });
  errors.median_without =
      MedianError(plans, [](const MeasuredPlan& plan) { return plan.ErrorWithoutSlowdown(); });
  for (const MeasuredPlan& plan : plans) {
    errors.worst_with = std::max(errors.worst_with, std::abs(plan.Error()));
    errors.worst_without = std::max(errors.worst_without, std::abs(plan.ErrorWithoutSlowdown()));
    if (!plan.Decides()) continue;
    ++errors.decided_count;
    if (plan.SlowdownIsCloser()) ++errors.closer_count;
  }
  return errors;
}

}  // namespace parplan::papers
