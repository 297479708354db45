// A chart of lines as an SVG file, with logarithmic or linear axes. `PapersPictures` draws with it.

#ifndef PARPLAN_STUDIES_PAPERS_LINE_CHART_H_
#define PARPLAN_STUDIES_PAPERS_LINE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace parplan::papers {

// A line of a chart: its name in the legend, and its points.
struct ChartLine {
  std::string name;
  // (x, y), ascending in x.
  std::vector<std::pair<double, double>> points;
};

// A chart of several lines over common axes.
struct LineChart {
  std::string title;
  std::string x_name;
  std::string y_name;
  // Logarithmic axes; then all values are above 0.
  bool log_x = false;
  bool log_y = false;
  // At most six lines, which have as many colours.
  std::vector<ChartLine> lines;
};

// Returns the file, the same bytes for the same chart; texts are escaped. REQUIRES: some point, at
// most six lines, and values above 0 on logarithmic axes; aborts otherwise. That values are finite
// is not checked.
std::string ChartSvg(const LineChart& chart);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_LINE_CHART_H_
