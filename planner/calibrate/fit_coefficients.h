// Fits coefficients of the cost model to measured runs: robust least squares on ln(measured /
// predicted), regularised by priors so that few runs change little.
//
//   PARPLAN_ASSIGN_OR_RETURN(const Fit fit, FitCoefficients(parameters, runs.size(), residuals));
//   const auto values = WithFitted(base, parameters, fit.parameters);  // fit_parameters.h
//
// `CalibrateRuns` (clients/calibrate) calls it. Pure.

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
  // Value it keeps without evidence, within the bounds. A prior at a bound, or very near, is moved
  // inside by 1e-4 of the span between them.
  double prior = 0.0;
  // Bounds it never reaches: finite, 0 <= lowest < highest.
  double lowest = 0.0;
  double highest = 0.0;
  // Standard deviation of ln(value) around the prior: 0.1 for ten per cent.
  double prior_width = 0.0;
  // Index of an earlier parameter, of the same coefficient in a wider scope and with the same
  // bounds, that this one follows; -1 for none. The prior then moves with the parent, by the
  // distance of the parent from its own prior in ln(value), and `prior_width` applies to the
  // distance from there.
  int parent = -1;
};

// Writes the residual ln(measured / predicted) of every run, predicted at `values`, one per
// parameter, in the units of coefficients.h. `residuals` has one place per run and holds NaN
// before; the function leaves NaN for a run that cannot be predicted, and does so whatever the
// values are. The fit uses the runs that have a finite residual at the priors. It rejects a step to
// values at which one of those runs has none.
using ResidualFunction =
    std::function<void(absl::Span<const double> values, absl::Span<double> residuals)>;

// How much runs count against the priors, and when a fit ends.
struct FitOptions {
  // Standard deviation of the residuals of a perfect model: noise, and causes that runs do not
  // record. The smaller it is, the more a run counts against the priors. Not measured: repeated
  // runs of published jobs differ by a few per cent.
  double residual_deviation = 0.05;
  // Number of deviations beyond which a residual pulls no harder (Huber, Annals of Mathematical
  // Statistics 35, 1964). 1.5 is the usual choice; smaller values ignore more of each run, larger
  // ones let outliers decide.
  double outlier_threshold = 1.5;
  // A limit for fits that do not converge; usual ones take 5 to 20 iterations.
  int max_iteration_count = 60;
};

// The result for one parameter.
struct FittedParameter {
  // Fitted value, in the unit of the coefficient (coefficients.h).
  double value = 0.0;
  // Standard deviation of ln(value) after the fit. If the parameter has a parent, that of its
  // distance from the prior that the parent has moved, as for `prior_width`. Near a bound it
  // shrinks with the room that is left.
  double width = 0.0;
  // Number of runs whose prediction changes by 0.1 % or more if the parameter moves by its prior
  // width.
  int64_t evidence_count = 0;
};

// The result of a fit.
struct Fit {
  // [parameter], in the order given.
  std::vector<FittedParameter> parameters;
  // [run], in the order given; NaN for a run that cannot be predicted.
  std::vector<double> residuals;
  int iteration_count = 0;
  // Whether the fit ended because the next step would move every parameter by less than 1e-5 of its
  // prior width, or because the last one lowered the objective (the squared and robust distances
  // from priors and runs) by a fraction below 1e-10. Otherwise the limit of iterations ended it,
  // and the values are the best so far.
  bool converged = false;
};

// Finds the most likely values given priors and runs (maximum a posteriori), by Levenberg-Marquardt
// with derivatives by central differences. The variable is ln(value), except within a prior width
// of a bound, or a quarter of the way between the bounds if that is less: there it is stretched so
// that the bound is at infinity. A `lowest` of 0 is at infinity in ln(value) already.
// Deterministic; the order of runs affects only rounding.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) naming a member of the first parameter at fault, for
// example `parameters[2].prior`, for bounds that are not finite, at least 0 and in order, a prior
// outside them, a width that is infinite or not above 0, or a parent that does not come before, is
// of another coefficient or has other bounds. Without parameters the result has only residuals;
// without runs the values are the priors.
//
// Calls `residual_function` 2 * parameters + 1 times before the first iteration, as often in each
// iteration, and once more for each step that improves nothing; usually for 5 to 20 iterations.
// Calls come one at a time from the calling thread; without runs there are none. `options` and a
// negative `run_count` are not checked.
absl::StatusOr<Fit> FitCoefficients(absl::Span<const FitParameter> parameters, int64_t run_count,
                                    const ResidualFunction& residual_function,
                                    const FitOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_FIT_COEFFICIENTS_H_
