// The frame that all charts share: rows, most often one per stage, names on the left, figures on
// the right, an axis below.
//
// Positions along a row are percentages of its width and heights are pixels, so a chart is as wide
// as the page and its text keeps its size. The charts of the report (charts.h) are made of it; the
// scatter chart of the accuracy study has a frame of its own, and takes `AxisUnit` from here.

#ifndef PARPLAN_CLIENTS_REPORT_CHART_H_
#define PARPLAN_CLIENTS_REPORT_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan::report {

// Most rows that callers give a chart, which does not check it; further stages are in the tables
// only. Not measured: 128 rows keep the page below 1 MiB.
inline constexpr int kMaxChartRows = 128;

// The unit of an axis.
enum class AxisUnit { kSeconds, kBytes };

// One chart; rows count from 0 to `row_count` - 1, which is not checked. Texts are escaped, `css`
// (classes of report.css) and `shapes` are not. Used by one thread at a time.
class Chart {
 public:
  // `title` is read by screen readers. `banner` reserves room for a text above the rows.
  Chart(std::string title, int row_count, bool banner);

  // Vertical positions of a row, in pixels.
  double RowTop(int row) const { return top_ + row * row_height_; }
  double BarTop(int row) const { return RowTop(row) + gap_; }
  double bar_height() const { return row_height_ - 2 * gap_; }
  double RowMiddle(int row) const { return RowTop(row) + row_height_ / 2; }
  double bottom() const { return RowTop(row_count_); }

  // Adds a row's name and the figure to its right. Called once per row, in order. REQUIRES:
  // `figure` is empty for all rows or for none, because an empty one takes no line; not checked.
  void AddRow(absl::string_view name, absl::string_view figure);

  // Adds a bar from `start` to `end`, both shares of the width in [0, 1], with `hint` as its
  // tooltip. Bars too short to see, below 0.005 % of the width, are left out.
  void AddBar(int row, double start, double end, absl::string_view css, absl::string_view hint);

  // Adds a word on the middle of a bar if there is room for `characters` characters: on every page,
  // else on wide pages only, else not at all. Returns whether it was added. `plate` gives it a
  // plain background.
  bool AddWord(int row, double start, double end, absl::string_view css, absl::string_view word,
               size_t characters, bool plate);

  // Adds ticks and a grid from 0 to `end` seconds or bytes, the full width. Called at most once.
  // Does nothing if `end` is not positive and finite.
  void AddAxis(double end, AxisUnit unit);

  // Adds a line through all rows at `place`, a share of the width, with a text above it. REQUIRES,
  // unchecked: a banner.
  void AddLimit(double place, absl::string_view text);

  // Adds SVG shapes in a box of 1000 by `bottom()` that is stretched to the width.
  void AddStretched(absl::string_view shapes);

  // Returns the chart as one HTML element.
  std::string Html() const;

 private:
  std::string title_;
  int row_count_;
  double top_;
  double row_height_;
  double gap_;
  bool has_axis_ = false;
  std::string names_;
  std::string figures_;
  std::string grid_;
  std::string shapes_;
  std::string words_;
};

// Returns a small square filled like the bars of class `css`, for a legend or a table.
std::string Swatch(absl::string_view css);

// An entry of a legend. An entry without a class has no square and explains the words on bars, so
// it is shown on wide pages only.
struct LegendEntry {
  // Class of the style sheet that colours the square; empty for none.
  std::string css;
  std::string text;
};
// Returns the entries as an HTML list, in their order; their texts are escaped.
std::string Legend(const std::vector<LegendEntry>& entries);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_CHART_H_
