// Fits coefficients of the cost model to measured runs: robust least squares on
// ln(measured / predicted), held back by priors so that few runs move little.

#ifndef PARPLAN_PLANNER_CALIBRATE_FIT_COEFFICIENTS_H_
#define PARPLAN_PLANNER_CALIBRATE_FIT_COEFFICIENTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "planner/model/calibration.h"
#include "planner/model/coefficients.h"

namespace parplan {

// One coefficient in one scope.
struct FitParameter {
  Coefficient coefficient = Coefficient::kMatrixEfficiency;
  CalibrationScope scope;
  // Where it stays when no run says otherwise.
  double prior = 0.0;
  // It never reaches these.
  double lowest = 0.0;
  double highest = 0.0;
  // How far it goes from its prior without much evidence: a standard deviation of
  // ln(value), 0.1 for ten per cent.
  double prior_width = 0.0;
  // Index of an earlier parameter, of the same coefficient in a wider scope, that
  // takes this one along; -1 for none. The prior is then kept as a distance from
  // the parent's prior, and `prior_width` is of that distance.
  int parent = -1;
};

// Residuals, ln(measured / predicted), of all runs at `values`, one a parameter.
// A run that can't be predicted gives NaN, and does so at all values.
using ResidualFunction =
    std::function<void(absl::Span<const double> values, absl::Span<double> residuals)>;

struct FitOptions {
  // Standard deviation of residuals a perfect model would leave: noise, and what
  // runs don't tell. The smaller, the more a run is worth against the priors.
  double residual_deviation = 0.05;
  // Residuals beyond so many deviations pull no harder than at it (Huber, Annals of
  // Mathematical Statistics 35, 1964).
  double outlier_threshold = 1.5;
  int max_iteration_count = 60;
};

struct FittedParameter {
  double value = 0.0;
  // As `prior_width`, of what is known now.
  double width = 0.0;
  // Runs whose prediction changes by 0.1 % or more when the parameter moves by its
  // prior width.
  int64_t evidence_count = 0;
};

struct Fit {
  // As the parameters given.
  std::vector<FittedParameter> parameters;
  // As the runs given; NaN where they can't be predicted.
  std::vector<double> residuals;
  int iteration_count = 0;
  // Whether it stopped because nothing got better.
  bool converged = false;
};

// The values that are likeliest given priors and runs (maximum a posteriori), by
// Levenberg-Marquardt in the logit of each parameter's place between its bounds,
// derivatives by central differences. Deterministic; the order of runs matters to
// rounding only.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming `parameters[i]` for bounds that are not
// finite and in order, a prior outside them, a width not above 0, or a parent that
// does not come before or has other bounds.
//
// Calls `residuals` 2 * parameters + 1 times an iteration, 5 to 20 of them.
absl::StatusOr<Fit> FitCoefficients(absl::Span<const FitParameter> parameters, int64_t run_count,
                                    const ResidualFunction& residuals,
                                    const FitOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_FIT_COEFFICIENTS_H_
