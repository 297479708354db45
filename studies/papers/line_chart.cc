#include "studies/papers/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "clients/report/html.h"

namespace parplan::papers {
namespace {

// Pixels.
constexpr double kWidth = 720.0;
constexpr double kHeight = 360.0;
constexpr double kLeft = 64.0;
constexpr double kRight = 150.0;
constexpr double kTop = 34.0;
constexpr double kBottom = 44.0;
// Steps of a linear axis, about.
constexpr int kSteps = 6;
constexpr const char* kColours[] = {"#1f5fa8", "#c2571a", "#1b7a43",
                                    "#6b3fa0", "#a02828", "#606060"};

// An axis from `low` to `high` over `length` pixels.
struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool is_log = false;

  void Include(double value) {
    PARPLAN_CHECK(!is_log || value > 0.0);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Widens the axis to its ticks.
  void Round() {
    if (is_log) {
      low = std::pow(10.0, std::floor(std::log10(low) + 1e-9));
      high = std::pow(10.0, std::ceil(std::log10(high) - 1e-9));
      if (high <= low) high = 10.0 * low;
      return;
    }
    const double step = Step();
    low = step * std::floor(low / step + 1e-9);
    high = step * std::ceil(high / step - 1e-9);
    if (high <= low) high = low + step;
  }
  double Step() const {
    const double rough = std::max(high - low, 1e-9) / kSteps;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10.0 * power;
  }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (is_log) {
      const int decades = static_cast<int>(std::floor(std::log10(high * 1.001 / low)));
      for (int i = 0; i <= decades; ++i) ticks.push_back(low * std::pow(10.0, i));
      return ticks;
    }
    const double step = Step();
    for (int i = 0; low + i * step <= high + step / 1000; ++i) ticks.push_back(low + i * step);
    return ticks;
  }
  double Share(double value) const {
    if (is_log) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
};

double X(const Axis& axis, double value) {
  return kLeft + (kWidth - kLeft - kRight) * axis.Share(value);
}

double Y(const Axis& axis, double value) {
  return kHeight - kBottom - (kHeight - kTop - kBottom) * axis.Share(value);
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#303030\">%s</text>\n", x, y, anchor,
      report::Escape(text));
}

std::string Line(double x1, double y1, double x2, double y2) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e0e0e0\"/>\n", x1, y1, x2,
      y2);
}

std::string TickText(double value) { return absl::StrFormat("%.6g", value); }

}  // namespace

std::string ChartSvg(const LineChart& chart) {
  PARPLAN_CHECK(chart.lines.size() <= std::size(kColours));
  Axis x{.is_log = chart.log_x}, y{.is_log = chart.log_y};
  for (const ChartLine& line : chart.lines) {
    for (const auto& [point_x, point_y] : line.points) {
      x.Include(point_x);
      y.Include(point_y);
    }
  }
  PARPLAN_CHECK(x.low <= x.high);
  x.Round();
  y.Round();
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"none\" role=\"img\" aria-label=\"%s\">\n"
      "<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight, kWidth, kHeight, report::Escape(chart.title), kWidth, kHeight);
  svg += Text(kLeft, 18, "start", chart.title);
  for (const double tick : x.Ticks()) {
    svg += Line(X(x, tick), kTop, X(x, tick), kHeight - kBottom);
    svg += Text(X(x, tick), kHeight - kBottom + 16, "middle", TickText(tick));
  }
  for (const double tick : y.Ticks()) {
    svg += Line(kLeft, Y(y, tick), kWidth - kRight, Y(y, tick));
    svg += Text(kLeft - 6, Y(y, tick) + 4, "end", TickText(tick));
  }
  svg += Text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", chart.x_name);
  svg += absl::StrFormat(
      "<text x=\"14\" y=\"%.1f\" transform=\"rotate(-90 14 %.1f)\" text-anchor=\"middle\" "
      "fill=\"#303030\">%s</text>\n",
      (kTop + kHeight - kBottom) / 2, (kTop + kHeight - kBottom) / 2, report::Escape(chart.y_name));
  for (size_t index = 0; index < chart.lines.size(); ++index) {
    const char* const colour = kColours[index];
    std::string points;
    for (const auto& [point_x, point_y] : chart.lines[index].points) {
      absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ", X(x, point_x),
                            Y(y, point_y));
    }
    absl::StrAppendFormat(&svg, "<polyline points=\"%s\" stroke=\"%s\" stroke-width=\"1.6\"/>\n",
                          points, colour);
    for (const auto& [point_x, point_y] : chart.lines[index].points) {
      absl::StrAppendFormat(&svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                            X(x, point_x), Y(y, point_y), colour);
    }
    const double row = kTop + 16.0 * static_cast<double>(index) + 8;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n",
                          kWidth - kRight + 14, row - 9, colour);
    svg += Text(kWidth - kRight + 30, row, "start", chart.lines[index].name);
  }
  return svg + "</svg>\n";
}

}  // namespace parplan::papers
