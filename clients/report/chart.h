// The frame all charts share: a row a stage, names on the left, figures on the
// right, an axis below.
//
// Places along a row are percentages of its width and heights are pixels, so a
// chart is as wide as the page and its text keeps its size.

#ifndef PARPLAN_CLIENTS_REPORT_CHART_H_
#define PARPLAN_CLIENTS_REPORT_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan::report {

// Rows a chart draws at most; what has more stages is told in its tables.
inline constexpr int kMaxChartRows = 128;

// What an axis counts.
enum class AxisUnit { kSeconds, kBytes };

class Chart {
 public:
  // `title` is what a screen reader says. With `banner` there is room for a
  // text above the rows.
  Chart(std::string title, int row_count, bool banner);

  // Places of a row, in pixels.
  double RowTop(int row) const { return top_ + row * row_height_; }
  double BarTop(int row) const { return RowTop(row) + gap_; }
  double bar_height() const { return row_height_ - 2 * gap_; }
  double RowMiddle(int row) const { return RowTop(row) + row_height_ / 2; }
  double bottom() const { return RowTop(row_count_); }

  // A row's name and the figure behind it. Called once a row, in order.
  void AddRow(absl::string_view name, absl::string_view figure);

  // A bar from `start` to `end`, both shares of the width in [0, 1], with what
  // the pointer finds there. Bars too short to see are left out.
  void AddBar(int row, double start, double end, absl::string_view css, absl::string_view hint);

  // A word on the middle of a bar of that place if there is room for one of
  // `characters`: on any page, else on wide pages only, else not at all, which is
  // false. With `plate` it has a plain ground of its own.
  bool AddWord(int row, double start, double end, absl::string_view css, absl::string_view word,
               size_t characters, bool plate);

  // Ticks and grid from 0 to `end`, which is the full width. Nothing if `end` is
  // not positive.
  void AddAxis(double end, AxisUnit unit);

  // A line through all rows at `place`, with a text above. Needs the banner.
  void AddLimit(double place, absl::string_view text);

  // Anything drawn in a box of 1000 by `bottom()` that is stretched to the width.
  void AddStretched(absl::string_view shapes);

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

// An entry of a legend or table: a small square drawn like the bars of `css`.
std::string Swatch(absl::string_view css);

// A legend. An entry without a class has no square and is about the words on
// bars, so it is on wide pages only.
struct LegendEntry {
  std::string css;
  std::string text;
};
std::string Legend(const std::vector<LegendEntry>& entries);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_CHART_H_
