// Quantiles of the normal distribution. The cost model's risk of running out of memory and the
// ranges of predictions are computed with it.

#ifndef PARPLAN_BASE_NORMAL_SCORE_H_
#define PARPLAN_BASE_NORMAL_SCORE_H_

namespace parplan {

// Returns the standard normal quantile of `probability`, to about 1e-14: -1.645 for 0.05, 0 for
// 0.5. It bisects, so it is too slow for inner loops. REQUIRES: 1e-15 <= probability <= 1 - 1e-15;
// aborts otherwise, also for NaN.
double NormalScore(double probability);

}  // namespace parplan

#endif  // PARPLAN_BASE_NORMAL_SCORE_H_
