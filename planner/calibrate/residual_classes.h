// Classes of residuals, from which ranges are made: corrected so that a range holds
// the share of new runs it promises, also when few runs are known.

#ifndef PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_
#define PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/model/calibration.h"

namespace parplan {

// How far the prediction of one run was off.
struct Residual {
  // All members set.
  ResidualKey key;
  // ln(measured / predicted).
  double log_ratio = 0.0;
};

struct ResidualOptions {
  // Fewer runs make no class: the wider one then speaks for them.
  int64_t fewest_runs = 8;
  // Standard deviation between laboratories that run the same job, which runs of one
  // laboratory don't show. Two differ by 2 to 6.5 % on three published jobs: about
  // 3 % each.
  double laboratory_deviation = 0.03;
  // Coefficients fitted on the same runs, whose residuals are smaller for that by
  // sqrt((n - p) / n).
  double fitted_parameter_count = 0.0;
};

// Quantiles of ln(measured / predicted) of the next run at `kResidualProbabilities`,
// from those of `log_ratios` (at least one):
//
//   1. A quantile p < 1/2 is the order statistic of rank floor(p (n + 1)), so that
//      the next run is below with a probability of at most p whatever the
//      distribution (split conformal prediction: Lei et al., JASA 113, 2018,
//      section 2.2). Above the median the same, mirrored.
//   2. Where n is too small for such a rank, it is the wider of the smallest residual
//      and mean - t(p, n - 1) s sqrt(1 + 1/n), the normal law's prediction bound.
//   3. Distances from the median grow by sqrt(n / (n - p)) for p fitted
//      coefficients, and by the laboratories' deviation, added as variances.
std::array<double, 9> ResidualQuantiles(std::vector<double> log_ratios,
                                        const ResidualOptions& options = {});

// The classes the residuals make: each with what `Calibration::Range` falls back to,
// sorted by key. Residuals that are not finite are left out. A class that leaves open
// what all of its runs have in common (one family, one confidence; of steps, one reach)
// is not made: it would speak of what nobody has seen.
std::vector<ResidualClass> MakeResidualClasses(absl::Span<const Residual> residuals,
                                               const ResidualOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_
