// Classes of residuals, from which the ranges of predictions are made. Their quantiles are
// corrected so that a range holds the promised share of new runs even if few runs are known.
// `CalibrateRuns` (clients/calibrate) makes them after the fit.

#ifndef PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_
#define PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/model/calibration.h"

namespace parplan {

// The error of the prediction of one run.
struct Residual {
  // All members set.
  ResidualKey key;
  // ln(measured / predicted).
  double log_ratio = 0.0;
};

// How classes are made, and which uncertainty is added to them.
struct ResidualOptions {
  // Smallest number of runs that make a class; fewer only count in the wider one. Ignored by
  // `ResidualQuantiles`. Not measured: with 8 runs no quantile beyond 1/9 is an order statistic.
  int64_t fewest_runs = 8;
  // Standard deviation between laboratories that run the same job, which runs of one laboratory do
  // not show. On three published jobs two laboratories differ by 2 to 6.5 % (docs/papers.md 14),
  // which is about 3 % each.
  double laboratory_deviation = 0.03;
  // Number p of coefficients fitted on the same n runs, which makes residuals smaller by
  // sqrt((n - p) / n); n - p counts as at least 1.
  double fitted_parameter_count = 0.0;
};

// Returns the quantiles of ln(measured / predicted) of the next run at `kResidualProbabilities`,
// given at least one earlier run:
//
//   1. A quantile p < 1/2 is the order statistic of rank floor(p (n + 1)), so that the next run
//      lies below it with a probability of at most p under any distribution (split conformal
//      prediction: Lei et al., JASA 113, 2018, section 2.2). Above the median the same, mirrored.
//   2. If n is too small for such a rank, it is the wider of the smallest residual and
//      mean - t(p, n - 1) s sqrt(1 + 1/n), the prediction bound of a normal distribution. One
//      residual has s = 0.
//   3. Distances from the median grow by sqrt(n / (n - p)) for p fitted coefficients, and by the
//      quantile of the laboratories' normal distribution, added as squares.
//
// Quantiles ascend and are kept within -5 and 5 (`kMaxLogRatio`). Residuals may come in any order;
// that they are finite is not checked. REQUIRES: at least one residual; aborts otherwise.
std::array<double, 9> ResidualQuantiles(std::vector<double> log_ratios,
                                        const ResidualOptions& options = {});

// Makes the classes of the residuals, and the wider ones that `Calibration::Range` falls back to
// (`WiderKeys`, in all of which each residual counts), sorted by key; empty if none has enough
// runs. Residuals that are not finite are left out. A class that leaves a member open although all
// its runs share one value of it (family, confidence, or for steps the reach) is not made, since it
// would cover predictions without any evidence.
std::vector<ResidualClass> MakeResidualClasses(absl::Span<const Residual> residuals,
                                               const ResidualOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_RESIDUAL_CLASSES_H_
