// The error of predicted steps with and without the slow-down of work that overlaps communication,
// from runs that the benchmark `prediction` measured. The command `parplan-study papers` reads them
// with it, and its page shows the errors.

#ifndef PARPLAN_STUDIES_PAPERS_OVERLAP_ERROR_H_
#define PARPLAN_STUDIES_PAPERS_OVERLAP_ERROR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::papers {

// A plan that was run, as `prediction --results` writes it. Milliseconds a step.
struct MeasuredPlan {
  // The benchmark's set of plans, and the plan's name in it.
  std::string set;
  std::string plan;
  // Slow-down that the machine's profile has.
  double slowdown = 1.0;
  double predicted_ms = 0.0;
  // The same with a slow-down of 1.
  double predicted_without_slowdown_ms = 0.0;
  // Median of the steps, half the width of its 95 % interval (`MedianUncertainty`), and their 10th
  // and 90th percentile.
  double measured_ms = 0.0;
  double median_uncertainty_ms = 0.0;
  double p10_ms = 0.0;
  double p90_ms = 0.0;

  friend bool operator==(const MeasuredPlan&, const MeasuredPlan&) = default;

  // Predicted over measured, less 1.
  double Error() const { return predicted_ms / measured_ms - 1.0; }
  double ErrorWithoutSlowdown() const { return predicted_without_slowdown_ms / measured_ms - 1.0; }

  // Returns whether the two predictions are further apart than the interval of the median is wide,
  // so that the run shows which of them is better.
  bool Decides() const;
  // Returns whether the prediction with the slow-down is the closer one.
  bool SlowdownIsCloser() const;
};

// Reads a file of `prediction --results`, six digits of each number. INVALID_ARGUMENT
// (SPEC_INVALID) naming `--runs` if it is none, has no plan, or a step was not measured to take
// time.
absl::StatusOr<std::vector<MeasuredPlan>> ParseMeasuredPlans(absl::string_view text);

// Returns the plans of each set, in the order of its first plan.
std::vector<std::vector<MeasuredPlan>> BySet(const std::vector<MeasuredPlan>& plans);

// Returns the median of the absolute errors, the mean of the middle two of an even number.
// REQUIRES: some plan; aborts otherwise.
double MedianError(const std::vector<MeasuredPlan>& plans,
                   const std::function<double(const MeasuredPlan&)>& error);

// Errors of the plans of one set.
struct OverlapErrors {
  // Absolute errors with and without the slow-down, as fractions.
  double median_with = 0.0;
  double median_without = 0.0;
  double worst_with = 0.0;
  double worst_without = 0.0;
  // Plans that decide between the two, and those of them to which the slow-down is closer.
  int decided_count = 0;
  int closer_count = 0;
};

// Returns the errors of the plans of one set. REQUIRES: some plan; aborts otherwise.
OverlapErrors OverlapErrorsOf(const std::vector<MeasuredPlan>& plans);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_OVERLAP_ERROR_H_
