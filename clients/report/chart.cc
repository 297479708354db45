#include "clients/report/chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/report/html.h"

namespace parplan::report {
namespace {

constexpr double kBanner = 22.0;  // pixels above the rows for a text
constexpr double kAxis = 24.0;    // pixels below the rows for the axis

// Above this many rows they become lower.
constexpr int kMaxRoomyRows = 16;

// Width in pixels of the bars' part of a chart at least: on any page, and on a
// wide one (60rem, see the style sheet).
constexpr double kNarrowWidth = 200.0;
constexpr double kWideWidth = 760.0;
// Pixels of a character of the words on bars, with a margin around a word.
constexpr double kCharacter = 7.5;
constexpr double kMargin = 4.0;
// A bar is at least this many times wider than its plate, so that the bar still shows.
constexpr double kPlateRoom = 1.6;

// A round step that gives four to seven ticks up to `end`.
double TickStep(double end) {
  const double raw = end / 7.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10.0 * power;
}

struct Scale {
  double size;
  const char* name;
};

// The unit in which a chart that ends at `end` is labelled.
Scale ScaleOf(double end, AxisUnit unit) {
  static constexpr Scale kTimes[] = {{3600.0, "h"}, {1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}};
  static constexpr Scale kSizes[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  if (unit == AxisUnit::kSeconds) {
    for (const Scale& scale : kTimes) {
      if (end >= 2 * scale.size) return scale;
    }
    return kTimes[3];
  }
  for (const Scale& scale : kSizes) {
    if (end >= 2 * scale.size) return scale;
  }
  return kSizes[3];
}

std::string Place(double share) { return absl::StrFormat("%.2f%%", 100.0 * share); }

}  // namespace

Chart::Chart(std::string title, int row_count, bool banner)
    : title_(std::move(title)),
      row_count_(row_count),
      top_(banner ? kBanner : 0.0),
      row_height_(row_count > kMaxRoomyRows ? 16.0 : 28.0),
      gap_(row_count > kMaxRoomyRows ? 2.0 : 4.0) {}

void Chart::AddRow(absl::string_view name, absl::string_view figure) {
  absl::StrAppend(&names_, "<span>", Escape(name), "</span>");
  if (!figure.empty()) absl::StrAppend(&figures_, "<span>", Escape(figure), "</span>");
}

void Chart::AddBar(int row, double start, double end, absl::string_view css,
                   absl::string_view hint) {
  if (!(end - start >= 5e-5)) return;
  absl::StrAppend(&shapes_, "<rect class=\"", css, "\" x=\"", Place(start), "\" y=\"", BarTop(row),
                  "\" width=\"", Place(end - start), "\" height=\"", bar_height(), "\"><title>",
                  Escape(hint), "</title></rect>");
}

bool Chart::AddWord(int row, double start, double end, absl::string_view css,
                    absl::string_view word, size_t characters, bool plate) {
  const double width = kCharacter * static_cast<double>(characters) + kMargin;
  const double room = (end - start) / (plate ? kPlateRoom : 1.0);
  const char* visible = "";
  if (room * kNarrowWidth < width) {
    if (room * kWideWidth < width) return false;
    visible = " wide";
  }
  const std::string middle = Place((start + end) / 2);
  if (plate) {
    // The plate leaves a rim of two pixels of the bar.
    const double height = std::min(bar_height() - 2.0, 16.0);
    absl::StrAppend(&words_, "<rect class=\"plate", visible, "\" x=\"", middle, "\" y=\"",
                    RowMiddle(row) - height / 2, "\" width=\"", width, "\" height=\"", height,
                    "\" rx=\"3\" transform=\"translate(", -width / 2, " 0)\"/>");
  }
  absl::StrAppend(&words_, "<text class=\"", css, visible, "\" x=\"", middle, "\" y=\"",
                  RowMiddle(row) + 4, "\" text-anchor=\"middle\">", Escape(word), "</text>");
  return true;
}

void Chart::AddAxis(double end, AxisUnit unit) {
  if (!(end > 0.0) || !std::isfinite(end)) return;
  has_axis_ = true;
  const Scale scale = ScaleOf(end, unit);
  end /= scale.size;
  const double step = TickStep(end);
  for (int tick = 0; tick * step <= end * (1 + 1e-9); ++tick) {
    const double share = std::min(tick * step / end, 1.0);
    const std::string text = absl::StrFormat("%g", tick * step);
    // Labels at the edges are aligned inwards; odd ones are hidden on narrow pages.
    const char* anchor = share < 0.04 ? "start" : share > 0.9 ? "end" : "middle";
    absl::StrAppend(&grid_, "<line class=\"grid\" x1=\"", Place(share), "\" y1=\"", top_,
                    "\" x2=\"", Place(share), "\" y2=\"", bottom() + 4, "\"/><text",
                    tick % 2 == 1 ? " class=\"wide\"" : "", " x=\"", Place(share), "\" y=\"",
                    bottom() + 18, "\" text-anchor=\"", anchor, "\">",
                    tick == 0 ? text : absl::StrCat(text, " ", scale.name), "</text>");
  }
}

void Chart::AddLimit(double place, absl::string_view text) {
  const bool before = place > 0.5;
  absl::StrAppend(&words_, "<line class=\"limit\" x1=\"", Place(place), "\" y1=\"4\" x2=\"",
                  Place(place), "\" y2=\"", bottom() + 4, "\"/><text class=\"limit-text\" x=\"",
                  Place(place), "\" y=\"15\" dx=\"", before ? -6 : 6, "\" text-anchor=\"",
                  before ? "end" : "start", "\">", Escape(text), "</text>");
}

void Chart::AddStretched(absl::string_view shapes) {
  absl::StrAppend(&shapes_, "<svg width=\"100%\" height=\"", bottom(), "\" viewBox=\"0 0 1000 ",
                  bottom(), "\" preserveAspectRatio=\"none\">", shapes, "</svg>");
}

std::string Chart::Html() const {
  const char* room = row_count_ > kMaxRoomyRows ? " low" : "";
  const std::string top = top_ > 0.0 ? " below-banner" : "";
  return absl::StrCat("<div class=\"chart", room, "\"><div class=\"names", top, "\">", names_,
                      "</div><svg class=\"plot\" width=\"100%\" height=\"",
                      bottom() + (has_axis_ ? kAxis : 0.0), "\" role=\"img\" aria-label=\"",
                      Escape(title_), "\">", grid_, shapes_, words_, "</svg><div class=\"figures",
                      top, "\">", figures_, "</div></div>");
}

std::string Swatch(absl::string_view css) {
  return absl::StrCat(
      "<svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\">"
      "<rect class=\"",
      css, "\" width=\"14\" height=\"14\"/></svg>");
}

std::string Legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    absl::StrAppend(&html, entry.css.empty() ? "<li class=\"wide\">" : "<li>",
                    entry.css.empty() ? "" : Swatch(entry.css), Escape(entry.text), "</li>");
  }
  return html + "</ul>";
}

}  // namespace parplan::report
