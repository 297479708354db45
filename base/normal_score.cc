#include "base/normal_score.h"

#include <cmath>

#include "base/check.h"

namespace parplan {
namespace {

// Returns the quantile of a probability up to 0.5, where erfc keeps its digits.
double LowerScore(double probability) {
  double lower = -9.0;
  double upper = 0.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (lower + upper);
    (0.5 * std::erfc(-middle * M_SQRT1_2) < probability ? lower : upper) = middle;
  }
  return 0.5 * (lower + upper);
}

}  // namespace

double NormalScore(double probability) {
  PARPLAN_CHECK(probability >= 1e-15 && probability <= 1.0 - 1e-15);
  return probability > 0.5 ? -LowerScore(1.0 - probability) : LowerScore(probability);
}

}  // namespace parplan
