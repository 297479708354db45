#include "planner/calibrate/student_t.h"

#include <cmath>

#include "base/check.h"

namespace parplan {
namespace {

// Returns P(T > t), t >= 0, for `n` degrees of freedom: the finite series of Abramowitz and
// Stegun, 26.7.3 and 26.7.4, in theta = atan(t / sqrt(n)). Its terms are positive, but the
// difference from 1 loses digits: the error is about 1e-14, which is why probabilities end at 1e-9.
double UpperTail(double t, int n) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(n)));
  const double cosine = std::cos(theta);
  const double square = cosine * cosine;
  double within = 0.0;  // P(-t < T < t)
  if (n % 2 == 1) {
    double term = cosine;
    double sum = n > 1 ? term : 0.0;
    for (int k = 3; k <= n - 2; k += 2) {
      term *= square * (k - 1) / k;
      sum += term;
    }
    within = (theta + std::sin(theta) * sum) * M_2_PI;
  } else {
    double term = 1.0;
    double sum = term;
    for (int k = 2; k <= n - 2; k += 2) {
      term *= square * (k - 1) / k;
      sum += term;
    }
    within = std::sin(theta) * sum;
  }
  return 0.5 * (1.0 - within);
}

}  // namespace

double StudentTQuantile(double probability, int degrees_of_freedom) {
  PARPLAN_CHECK(probability >= 1e-9 && probability <= 1.0 - 1e-9);
  PARPLAN_CHECK(degrees_of_freedom >= 1);
  if (probability < 0.5) return -StudentTQuantile(1.0 - probability, degrees_of_freedom);
  const double tail = 1.0 - probability;
  // For one degree of freedom the quantile of 1 - 1e-9 is 3.2e8.
  double lower = 0.0;
  double upper = 1.0;
  while (UpperTail(upper, degrees_of_freedom) > tail && upper < 1e10) upper *= 2.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (lower + upper);
    (UpperTail(middle, degrees_of_freedom) > tail ? lower : upper) = middle;
  }
  return 0.5 * (lower + upper);
}

}  // namespace parplan
