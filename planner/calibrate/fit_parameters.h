// The coefficients that are fitted, their scopes, and the width of their priors. `CalibrateRuns`
// (clients/calibrate) fits these.

#ifndef PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_
#define PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/calibrate/fit_coefficients.h"
#include "planner/model/calibration.h"

namespace parplan {

// The place where runs were made.
struct FitPlace {
  // Empty if unknown; runs then change the global scope and that of their cluster alone.
  std::string device_family;
  // Empty if unknown.
  std::string cluster;
  // Whether the runs also change wider scopes than their cluster. True for published runs, false
  // for a cluster's own executions, which change nothing without a cluster.
  bool moves_wider_scopes = true;
  // Whether `cluster` may be several machines, for example all those of one publisher. Then its
  // runs change its `time_factor` alone, because links and hosts of several machines have no one
  // value. No effect unless `moves_wider_scopes`.
  bool is_several_machines = false;
  friend auto operator<=>(const FitPlace&, const FitPlace&) = default;
};

// Lists the parameters of a fit to runs of this quantity, in the order of coefficients, wider
// scopes first: each coefficient and scope once, `FitParameter::parent` set.
//
// Runs that move wider scopes change the global scope and that of their family. Runs of a cluster
// change the scope of their family within the cluster; it follows the wider scopes if these are
// fitted too, so that evidence is divided between the cluster and its family in proportion to their
// widths. A family for which `base` has values of its own does not follow the global scope, and a
// global value that an earlier fit has learned stays. `time_factor` and `activation_factor` are
// fitted by a cluster's own executions, for each of `layer_kinds`, and `time_factor`, for all kinds
// together, by published runs of several machines. Priors come from `base`, widths from
// docs/calibration.md. `places` may repeat.
std::vector<FitParameter> ParametersOf(ResidualQuantity quantity, const Calibration& base,
                                       absl::Span<const FitPlace> places,
                                       absl::Span<const LayerKind> layer_kinds = {});

// Returns the values of `base` with those of `parameters` replaced by `values`, for predictions
// during a fit. Those that `base` has keep their places, new ones follow. REQUIRES, unchecked:
// `values` has one for each parameter, and so has `fitted` below.
std::vector<CoefficientValue> WithValues(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const double> values);

// Returns the values of `base` with the results of a fit, marked as fitted. A parameter without
// evidence keeps the value of `base`, or has none if `base` has none; so does a value for every
// family with evidence of fewer than 8 runs.
std::vector<CoefficientValue> WithFitted(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const FittedParameter> fitted);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_
