#include "studies/accuracy/scatter_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/report/html.h"

namespace parplan::accuracy {
namespace {

// Pixels.
constexpr double kHeight = 320.0;
constexpr double kAxis = 40.0;
constexpr int kMaxTicks = 6;
// Room around the points, as a factor.
constexpr double kRoom = 1.25;

bool Drawable(const ScatterPoint& point) {
  return std::isfinite(point.measured) && std::isfinite(point.predicted) && point.measured > 0.0 &&
         point.predicted > 0.0;
}

// Places on an axis from `low` to `high`.
struct Scale {
  double low = 1.0;
  double high = 1.0;
  double Share(double value) const { return std::log(value / low) / std::log(high / low); }
  std::string X(double value) const { return absl::StrFormat("%.2f%%", 100.0 * Share(value)); }
  std::string Y(double value) const {
    return absl::StrFormat("%.1f", kHeight * (1.0 - Share(value)));
  }
};

std::string TickText(double value, report::AxisUnit unit) {
  struct Step {
    double size;
    const char* name;
  };
  static constexpr Step kTimes[] = {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "µs"}};
  static constexpr Step kSizes[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1.0, "B"}};
  if (unit == report::AxisUnit::kSeconds) {
    for (const Step& step : kTimes) {
      if (value >= step.size * 0.999) return absl::StrFormat("%g %s", value / step.size, step.name);
    }
    return absl::StrFormat("%g s", value);
  }
  for (const Step& step : kSizes) {
    if (value >= step.size * 0.999) return absl::StrFormat("%g %s", value / step.size, step.name);
  }
  return absl::StrFormat("%g B", value);
}

// predicted = factor x measured, over the whole width.
std::string Diagonal(const Scale& scale, double factor, const char* css) {
  return absl::StrCat("<line class=\"", css, "\" x1=\"0%\" y1=\"", scale.Y(scale.low * factor),
                      "\" x2=\"100%\" y2=\"", scale.Y(scale.high * factor), "\"/>");
}

std::string Axes(const Scale& scale, report::AxisUnit unit) {
  std::string svg;
  for (const double tick : LogTicks(scale.low, scale.high, kMaxTicks)) {
    const std::string text = report::Escape(TickText(tick, unit));
    const double share = scale.Share(tick);
    const char* anchor = share < 0.08 ? "start" : share > 0.92 ? "end" : "middle";
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"", scale.X(tick), "\" y1=\"0\" x2=\"",
                    scale.X(tick), "\" y2=\"", kHeight, "\"/><text x=\"", scale.X(tick), "\" y=\"",
                    kHeight + 16, "\" text-anchor=\"", anchor, "\">", text, "</text>");
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"0%\" y1=\"", scale.Y(tick),
                    "\" x2=\"100%\" y2=\"", scale.Y(tick), "\"/>");
    // Written on their lines, where there is room below the upper edge.
    if (share < 0.95) {
      absl::StrAppend(&svg, "<text x=\"4\" y=\"", scale.Y(tick), "\" dy=\"-3\">", text, "</text>");
    }
  }
  absl::StrAppend(&svg, "<text x=\"50%\" y=\"", kHeight + 34,
                  "\" text-anchor=\"middle\">measured (predicted upwards)</text>");
  return svg;
}

}  // namespace

std::vector<double> LogTicks(double low, double high, int max_count) {
  const int first = static_cast<int>(std::floor(std::log10(low))) - 1;
  const int last = static_cast<int>(std::ceil(std::log10(high))) + 1;
  std::vector<double> ticks;
  for (const bool fine : {true, false}) {
    for (int every = 1; every <= (fine ? 1 : last - first + 1); ++every) {
      ticks.clear();
      for (int power = first; power <= last; ++power) {
        if ((power - first) % every != 0) continue;
        for (const double factor : {1.0, 2.0, 5.0}) {
          if (!fine && factor > 1.0) continue;
          const double tick = factor * std::pow(10.0, power);
          if (tick >= low && tick <= high) ticks.push_back(tick);
        }
      }
      if (static_cast<int>(ticks.size()) <= max_count) return ticks;
    }
  }
  return ticks;
}

std::string ScatterChart(absl::string_view title, const std::vector<ScatterPoint>& points,
                         report::AxisUnit unit) {
  Scale scale;
  bool any = false;
  for (const ScatterPoint& point : points) {
    if (!Drawable(point)) continue;
    const auto [low, high] = std::minmax(point.measured, point.predicted);
    scale.low = any ? std::min(scale.low, low) : low;
    scale.high = any ? std::max(scale.high, high) : high;
    any = true;
  }
  if (!any) return "";
  // Half a decade at least, so that ticks exist.
  const double stretch = std::max(kRoom, std::sqrt(4.0 * scale.low / scale.high));
  scale.low /= stretch;
  scale.high *= stretch;

  std::string dots;
  for (const ScatterPoint& point : points) {
    if (!Drawable(point)) continue;
    absl::StrAppend(&dots, "<circle class=\"", point.fitted ? "dot fit" : "dot", "\" cx=\"",
                    scale.X(point.measured), "\" cy=\"", scale.Y(point.predicted),
                    "\" r=\"3.5\"><title>", report::Escape(point.hint), "</title></circle>");
  }
  return absl::StrCat("<div class=\"chart scatter\"><svg class=\"plot\" width=\"100%\" height=\"",
                      kHeight + kAxis, "\" role=\"img\" aria-label=\"", report::Escape(title),
                      "\">", Axes(scale, unit), "<svg width=\"100%\" height=\"", kHeight, "\">",
                      Diagonal(scale, 1.2, "off"), Diagonal(scale, 1.0 / 1.2, "off"),
                      Diagonal(scale, 1.0, "equal"), dots, "</svg></svg></div>");
}

}  // namespace parplan::accuracy
