#include "clients/planctl/report/charts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/planctl/report/html.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan::report {
namespace {

// All charts have this width in user units and scale with the page.
constexpr double kWidth = 1000.0;
constexpr double kLeft = 78.0;    // room for the names of the stages
constexpr double kRight = 14.0;
constexpr double kRow = 26.0;     // height of a row
constexpr double kBar = 18.0;     // height of a bar in it
constexpr double kAxis = 30.0;    // room for the axis below the rows
constexpr double kPlot = kWidth - kLeft - kRight;

// Events drawn at most; a page with more is slow to open and no clearer.
constexpr size_t kMaxEvents = 1600;

std::string Open(double height, const std::string& title) {
  return absl::StrFormat(
      "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\"><title>%s</title>", kWidth,
      height, Escape(title), Escape(title));
}

std::string RowLabel(int row, const std::string& text) {
  return absl::StrFormat("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kLeft - 10,
                         10 + row * kRow + kBar / 2 + 4, Escape(text));
}

std::string Bar(double x, double width, int row, const std::string& css, const std::string& hint) {
  return absl::StrFormat(
      "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\"><title>%s</title>"
      "</rect>",
      css, x, 10 + row * kRow, std::max(width, 0.0), kBar, Escape(hint));
}

// A round step that gives four to eight ticks up to `end`.
double TickStep(double end) {
  const double raw = end / 6.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10.0 * power;
}

// Ticks below `rows` rows. `text` names a value.
template <typename Text>
std::string AxisTicks(double end, double scale, int rows, Text text) {
  std::string svg;
  const double top = 10 + rows * kRow;
  const double step = TickStep(end);
  for (double value = 0.0; value <= end * (1 + 1e-9); value += step) {
    const double x = kLeft + value * scale;
    absl::StrAppend(&svg, absl::StrFormat("<line class=\"axis\" x1=\"%.1f\" y1=\"6\" x2=\"%.1f\" "
                                          "y2=\"%.1f\"/>",
                                          x, x, top));
    // The last label would stick out of the picture when the tick is at its edge.
    const char* anchor = x > kWidth - 50 ? "end" : "middle";
    absl::StrAppend(&svg, absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s"
                                          "</text>",
                                          x, top + 17, anchor, Escape(text(value))));
  }
  return svg;
}

std::string LegendEntry(const std::string& css, const std::string& text) {
  return absl::StrFormat("<li><i class=\"%s\"></i>%s</li>", css, Escape(text));
}

std::string StageName(int index) { return absl::StrCat("stage ", index); }

// Stacked bars, one row a stage. `value(stage, kind)` in units of the axis.
template <typename Kind, typename Value, typename Text>
std::string StackedBars(const std::string& title, int stage_count, int kind_count, double end,
                        Value value, Text text, double limit) {
  const double scale = kPlot / end;
  std::string svg = Open(10 + stage_count * kRow + kAxis, title);
  absl::StrAppend(&svg, AxisTicks(end, scale, stage_count, text));
  std::vector<bool> used(kind_count, false);
  for (int stage = 0; stage < stage_count; ++stage) {
    absl::StrAppend(&svg, RowLabel(stage, StageName(stage)));
    double x = kLeft;
    for (int kind = 0; kind < kind_count; ++kind) {
      const double width = value(stage, kind) * scale;
      if (width <= 0.0) continue;
      used[kind] = true;
      absl::StrAppend(&svg, Bar(x, width, stage, ColourClass(static_cast<Kind>(kind)),
                                absl::StrCat(StageName(stage), ", ",
                                             Name(static_cast<Kind>(kind)), ": ",
                                             text(value(stage, kind)))));
      x += width;
    }
  }
  if (limit > 0.0) {
    absl::StrAppend(&svg, absl::StrFormat("<line class=\"limit\" x1=\"%.1f\" y1=\"4\" "
                                          "x2=\"%.1f\" y2=\"%.1f\"><title>usable: %s</title>"
                                          "</line>",
                                          kLeft + limit * scale, kLeft + limit * scale,
                                          10 + stage_count * kRow, Escape(text(limit))));
  }
  absl::StrAppend(&svg, "</svg><ul class=\"legend\">");
  for (int kind = 0; kind < kind_count; ++kind) {
    if (!used[kind]) continue;
    absl::StrAppend(&svg, LegendEntry(ColourClass(static_cast<Kind>(kind)),
                                      Name(static_cast<Kind>(kind))));
  }
  absl::StrAppend(&svg, "</ul>");
  return svg;
}

}  // namespace

std::string PipelineTimeline(const Plan& plan, const Prediction& prediction) {
  std::vector<StageTimes> times;
  for (const StagePrediction& stage : prediction.stages) {
    times.push_back({stage.forward, stage.backward, stage.send, stage.gradient_sync});
  }
  // With very many micro-batches the middle of the step repeats itself; the
  // first of them show how it starts and goes on.
  const int stage_count = static_cast<int>(times.size());
  const int64_t drawable =
      std::max<int64_t>(1, static_cast<int64_t>(kMaxEvents) / (2 * stage_count));
  std::vector<PipelineEvent> events =
      PipelineEvents(plan.schedule, times, plan.micro_batch_count);
  const bool whole = plan.micro_batch_count <= drawable;
  Seconds end = prediction.step;
  if (!whole) {
    end = Seconds();
    for (const PipelineEvent& event : events) {
      if (event.micro_batch_index < drawable && !event.is_backward && event.stage_index == 0) {
        end = std::max(end, event.end);
      }
    }
  }
  const double scale = kPlot / end.value();
  std::string svg = Open(10 + stage_count * kRow + kAxis, "Pipeline timeline of one step");
  absl::StrAppend(&svg, AxisTicks(end.value(), scale, stage_count,
                                  [](double value) { return Time(Seconds::Of(value)); }));
  for (int stage = 0; stage < stage_count; ++stage) {
    absl::StrAppend(&svg, RowLabel(stage, StageName(stage)));
  }
  std::vector<Seconds> last_end(stage_count);
  for (const PipelineEvent& event : events) {
    last_end[event.stage_index] = std::max(last_end[event.stage_index], event.end);
    if (event.start >= end) continue;
    const Seconds shown = std::min(event.end, end) - event.start;
    absl::StrAppend(
        &svg,
        Bar(kLeft + event.start.value() * scale, shown.value() * scale, event.stage_index,
            event.is_backward ? "bwd event" : "fwd event",
            absl::StrCat(StageName(event.stage_index), ", micro-batch ", event.micro_batch_index,
                         event.is_backward ? " backward, " : " forward, ", Time(event.start),
                         " to ", Time(event.end))));
  }
  bool any_sync = false;
  for (int stage = 0; whole && stage < stage_count; ++stage) {
    const Seconds sync = times[stage].gradient_sync;
    if (sync <= Seconds()) continue;
    any_sync = true;
    absl::StrAppend(&svg,
                    Bar(kLeft + last_end[stage].value() * scale, sync.value() * scale, stage,
                        "sync event",
                        absl::StrCat(StageName(stage), ", gradient synchronisation that nothing "
                                     "hides: ", Time(sync))));
  }
  absl::StrAppend(&svg, "</svg><ul class=\"legend\">", LegendEntry("cf", "forward"),
                  LegendEntry("cb", "backward"));
  if (any_sync) absl::StrAppend(&svg, LegendEntry("cs", "gradient synchronisation"));
  absl::StrAppend(&svg, "</ul>");
  if (!whole) {
    absl::StrAppend(&svg, "<p class=\"quiet\">The first ", Time(end), " of ",
                    Time(prediction.step), ": the rest repeats until the pipeline drains.</p>");
  }
  return svg;
}

std::string MemoryBars(const Prediction& prediction) {
  const double end =
      1.04 * std::max(prediction.peak_memory, prediction.usable_memory).as_double();
  return StackedBars<MemoryItemKind>(
      "Memory of one device of each stage",
      static_cast<int>(prediction.stages.size()), kMemoryItemKindCount, end,
      [&prediction](int stage, int kind) {
        return prediction.stages[stage].memory.size[kind].as_double();
      },
      [](double value) { return value == 0.0 ? std::string("0") : Size(Bytes::Ceil(value)); },
      prediction.usable_memory.as_double());
}

std::string TimeBars(const Prediction& prediction) {
  Seconds longest;
  for (const StagePrediction& stage : prediction.stages) {
    longest = std::max(longest, stage.time.Total());
  }
  return StackedBars<TimeItemKind>(
      "Busy time of each stage per micro-batch",
      static_cast<int>(prediction.stages.size()), kTimeItemKindCount, 1.04 * longest.value(),
      [&prediction](int stage, int kind) {
        return prediction.stages[stage].time.duration[kind].value();
      },
      [](double value) {
        return value == 0.0 ? std::string("0") : Time(Seconds::Of(value));
      },
      0.0);
}

std::string StrategyStrip(const Plan& plan, const std::vector<std::string>& layer_names) {
  const int depth = plan.pipeline_parallel_degree();
  int most_layers = 1;
  for (const StagePlan& stage : plan.stages) most_layers = std::max(most_layers, stage.layer_count());
  const double cell = kPlot / most_layers;
  std::vector<Strategy> seen;
  std::string svg = Open(10 + depth * kRow + 6, "Strategy of every layer");
  for (int row = 0; row < depth; ++row) {
    const StagePlan& stage = plan.stages[row];
    absl::StrAppend(&svg, RowLabel(row, StageName(row)));
    double x = kLeft;
    for (const StageLayerRun& run : stage.layer_runs) {
      const auto found = std::find(seen.begin(), seen.end(), run.strategy);
      const int index = static_cast<int>(found - seen.begin());
      if (found == seen.end()) seen.push_back(run.strategy);
      // One shape a run; cells are told apart up to a number that can be seen.
      const int pieces = cell >= 4.0 ? run.layer_count : 1;
      const double width = cell * run.layer_count / pieces;
      for (int piece = 0; piece < pieces; ++piece) {
        const int layer = run.first_layer_index + piece;
        const std::string what =
            pieces == 1 && run.layer_count > 1
                ? absl::StrCat("layers ", run.first_layer_index, " to ",
                               run.first_layer_index + run.layer_count - 1)
                : absl::StrCat("layer ", layer, " (", layer_names[layer], ")");
        absl::StrAppend(&svg, Bar(x, width - (cell >= 4.0 ? 1.5 : 0.0), row,
                                  StrategyColourClass(index),
                                  absl::StrCat(what, ": ", StrategyNotation(depth, run.strategy))));
        x += width;
      }
    }
  }
  absl::StrAppend(&svg, "</svg><ul class=\"legend\">");
  for (size_t i = 0; i < seen.size(); ++i) {
    const Strategy& strategy = seen[i];
    std::string words = absl::StrCat(StrategyNotation(depth, strategy), ": tensor parallel ",
                                     strategy.tensor_parallel_degree, ", data parallel ",
                                     strategy.data_parallel_degree);
    if (strategy.sharding_level == ShardingLevel::kParameters) words += ", parameters sharded";
    if (strategy.recompute_level == RecomputeLevel::kFull) words += ", recomputed";
    absl::StrAppend(&svg, LegendEntry(StrategyColourClass(static_cast<int>(i)), words));
  }
  absl::StrAppend(&svg, "</ul>");
  return svg;
}

}  // namespace parplan::report
