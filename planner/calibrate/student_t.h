// Quantiles of Student's t distribution. `ResidualQuantiles` calls it.

#ifndef PARPLAN_PLANNER_CALIBRATE_STUDENT_T_H_
#define PARPLAN_PLANNER_CALIBRATE_STUDENT_T_H_

namespace parplan {

// Returns the quantile of `probability` with `degrees_of_freedom`: 2.015 for 0.95 and 5. The
// relative error is below 1e-10 for probabilities from 1e-6 to 1 - 1e-6, and 1e-7 beyond. REQUIRES:
// 1e-9 <= probability <= 1 - 1e-9, degrees_of_freedom >= 1; aborts otherwise.
double StudentTQuantile(double probability, int degrees_of_freedom);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_CALIBRATE_STUDENT_T_H_
