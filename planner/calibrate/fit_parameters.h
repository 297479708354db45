// Which coefficients are fitted in which scopes, and how far they may go.

#ifndef PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_
#define PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/calibrate/fit_coefficients.h"
#include "planner/model/calibration.h"

namespace parplan {

// Where runs were made.
struct FitPlace {
  std::string device_family;
  // Empty when nobody says.
  std::string cluster;
  // The runs were chosen to tell of more than their cluster: they move the wider
  // scopes too. Not so a cluster's own executions.
  bool moves_wider_scopes = true;
  friend auto operator<=>(const FitPlace&, const FitPlace&) = default;
};

// What is fitted where. Runs that move wider scopes do so globally and by family; runs
// of a cluster move those of their family within the cluster, which follow the wider
// ones where these are fitted too, so that what one cluster has to tell is shared
// between it and its family as their widths are. A family of which `base` knows
// something of its own stands alone. `time_factor` and `activation_factor` are fitted
// by a cluster's own executions only, and for each of `layer_kinds` within it. Priors are what
// `base` says; widths are those of docs/calibration.md. In the order of coefficients, wider scopes
// first; `places` may repeat.
std::vector<FitParameter> ParametersOf(ResidualQuantity quantity, const Calibration& base,
                                       absl::Span<const FitPlace> places,
                                       absl::Span<const LayerKind> layer_kinds = {});

// The values of `base` with those of `parameters` in their place: for predictions
// while a fit is going on.
std::vector<CoefficientValue> WithValues(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const double> values);

// The same when it is done. A parameter without evidence leaves what `base` said.
std::vector<CoefficientValue> WithFitted(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const FittedParameter> fitted);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_FIT_PARAMETERS_H_
