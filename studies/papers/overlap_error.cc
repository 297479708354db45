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
  return plans;
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

}  // namespace parplan::papers
