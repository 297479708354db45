// Predicted against measured, both on the same logarithmic scale, as inline SVG. `AccuracyHtml`
// draws with it.

#ifndef PARPLAN_STUDIES_ACCURACY_SCATTER_CHART_H_
#define PARPLAN_STUDIES_ACCURACY_SCATTER_CHART_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/report/chart.h"

namespace parplan::accuracy {

// A run. Both values are seconds or bytes, as the axes.
struct ScatterPoint {
  // Place on the horizontal and on the vertical axis.
  double measured = 0.0;
  double predicted = 0.0;
  // Whether coefficients were fitted on the point; it is drawn hollow.
  bool fitted = false;
  // The tooltip, plain text.
  std::string hint;
};

// Returns the ticks of a logarithmic axis from `low` to `high`: 1, 2 and 5 times powers of ten as
// long as these are at most `max_count` (at least 1), else every power, every second, ...
// ascending; may be none. REQUIRES: 0 < low <= high, both finite, which is not checked.
std::vector<double> LogTicks(double low, double high, int max_count);

// Returns a chart with equal scales, the line of equality, and lines where one value is 1.2 times
// the other. Points that are not finite and above 0 are left out; an empty text if none is left.
// Screen readers read `title`.
std::string ScatterChart(absl::string_view title, const std::vector<ScatterPoint>& points,
                         report::AxisUnit unit);

}  // namespace parplan::accuracy

#endif  // PARPLAN_STUDIES_ACCURACY_SCATTER_CHART_H_
