// The bars of charts.h: memory by stage, memory of several plans, and times.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/quantity_text.h"
#include "clients/report/chart.h"
#include "clients/report/charts.h"
#include "clients/report/html.h"
#include "clients/report/style.h"

namespace parplan::report {
namespace {

int RowCount(const Prediction& prediction) {
  return std::min(static_cast<int>(prediction.stages.size()), kMaxChartRows);
}

// Draws the items of every stage one after the other. `items(stage)` gives the
// value of each kind, `text` says a value.
template <typename Kind, typename Items, typename Text>
std::string StackItems(Chart& chart, const Prediction& prediction, int kind_count, double end,
                       Items items, Text text) {
  std::vector<bool> used(kind_count, false);
  for (int row = 0; row < RowCount(prediction); ++row) {
    double place = 0.0;
    for (int kind = 0; kind < kind_count; ++kind) {
      const double value = items(prediction.stages[row], kind);
      if (!(value > 0.0) || !(end > 0.0)) continue;
      used[kind] = true;
      const Kind item = static_cast<Kind>(kind);
      chart.AddBar(row, place, place + value / end, FillClass(item),
                   absl::StrCat("stage ", row, ", ", Name(item), ": ", text(value)));
      place += value / end;
    }
  }
  std::vector<LegendEntry> legend;
  for (int kind = 0; kind < kind_count; ++kind) {
    const Kind item = static_cast<Kind>(kind);
    if (used[kind]) legend.push_back({FillClass(item), Name(item)});
  }
  return Legend(legend);
}

}  // namespace

std::string MemoryBars(const Prediction& prediction) {
  const double usable = prediction.usable_memory.as_double();
  // A little more than the longest, so that the line of the limit stands free.
  const double end = 1.02 * std::max(prediction.peak_memory.as_double(), usable);
  Chart chart("Memory of one device of each stage", RowCount(prediction), /*banner=*/true);
  for (int row = 0; row < RowCount(prediction); ++row) {
    chart.AddRow(absl::StrCat("stage ", row), SizeText(prediction.stages[row].peak_memory()));
  }
  const std::string legend = StackItems<MemoryItemKind>(
      chart, prediction, kMemoryItemKindCount, end,
      [](const StagePrediction& stage, int kind) { return stage.memory.size[kind].as_double(); },
      [](double value) { return SizeText(Bytes::Ceil(value)); });
  chart.AddAxis(end, AxisUnit::kBytes);
  if (usable > 0.0) {
    chart.AddLimit(usable / end, absl::StrCat(SizeText(prediction.usable_memory), " usable"));
  }
  return chart.Html() + legend;
}

std::string FrontBars(const std::vector<PlanBeside>& plans, const Prediction& prediction) {
  const int row_count = static_cast<int>(std::min<size_t>(plans.size(), kMaxChartRows));
  double longest = prediction.usable_memory.as_double();
  for (const PlanBeside& plan : plans) longest = std::max(longest, plan.peak_memory.as_double());
  const double end = 1.02 * longest;
  if (!(end > 0.0)) return "";
  Chart chart("Memory of plans from the fastest to the smallest", row_count, /*banner=*/true);
  for (int row = 0; row < row_count; ++row) {
    const PlanBeside& plan = plans[row];
    chart.AddRow(TimeText(plan.step), SizeText(plan.peak_memory));
    chart.AddBar(row, 0.0, plan.peak_memory.as_double() / end, "f00",
                 absl::StrCat(TimeText(plan.step), " a step, ", SizeText(plan.peak_memory)));
  }
  chart.AddAxis(end, AxisUnit::kBytes);
  if (prediction.usable_memory > Bytes()) {
    chart.AddLimit(prediction.usable_memory.as_double() / end,
                   absl::StrCat(SizeText(prediction.usable_memory), " usable"));
  }
  if (static_cast<size_t>(row_count) == plans.size()) return chart.Html();
  return absl::StrCat(chart.Html(), "<p class=\"quiet\">Drawn are the first ", row_count, " of ",
                      plans.size(), " plans.</p>");
}

std::string TimeBars(const Prediction& prediction) {
  Seconds longest;
  for (const StagePrediction& stage : prediction.stages) {
    longest = std::max(longest, stage.time.Total());
  }
  Chart chart("Busy time of each stage per micro-batch", RowCount(prediction), /*banner=*/false);
  for (int row = 0; row < RowCount(prediction); ++row) {
    chart.AddRow(absl::StrCat("stage ", row), TimeText(prediction.stages[row].time.Total()));
  }
  const std::string legend = StackItems<TimeItemKind>(
      chart, prediction, kTimeItemKindCount, longest.value(),
      [](const StagePrediction& stage, int kind) { return stage.time.duration[kind].value(); },
      [](double value) { return TimeText(Seconds::Of(value)); });
  chart.AddAxis(longest.value(), AxisUnit::kSeconds);
  return chart.Html() + legend;
}

}  // namespace parplan::report
