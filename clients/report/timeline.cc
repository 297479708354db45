// `PipelineTimeline` of charts.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "clients/report/chart.h"
#include "clients/report/charts.h"
#include "clients/report/html.h"
#include "clients/report/stage_times.h"
#include "clients/report/style.h"
#include "planner/cost/pipeline_schedule.h"

namespace parplan::report {
namespace {

// Number of passes above which each is drawn as a stroke without a tooltip of its own.
constexpr int64_t kMaxTooltipEvents = 800;
// Largest number of passes that is drawn: more make the page slow to open and no clearer.
constexpr int64_t kMaxEvents = 16000;
// Largest number of micro-batches that is drawn if the pipeline is no deeper: more are narrower
// than a pixel or two, and the steady part repeats itself.
constexpr int64_t kMaxMicroBatches = 96;

// The first part of a step, or the whole step if it can be drawn.
struct Excerpt {
  bool whole = true;
  Seconds end;
  std::vector<PipelineEvent> events;  // those that start before `end`, of the rows drawn
};

Excerpt ExcerptOf(const Plan& plan, const Prediction& prediction, const PipelineRules& rules,
                  const std::vector<StageTimes>& times, int row_count) {
  const int64_t stage_count = static_cast<int64_t>(times.size());
  const int device_count = static_cast<int>(prediction.stages.size());
  const int64_t drawable =
      std::max<int64_t>(std::min(std::max<int64_t>(kMaxMicroBatches, 3 * stage_count),
                                 kMaxEvents / (int64_t{2} * row_count * plan.virtual_stage_count)),
                        1);
  Excerpt excerpt;
  excerpt.whole = plan.micro_batch_count <= drawable;
  excerpt.end = prediction.step;
  // The beginning of a step does not depend on how many micro-batches follow, as
  // long as there are enough for every stage to warm up.
  const int64_t enough = std::max(drawable + 1, stage_count + 1);
  // Interleaved, micro-batches go by groups of as many as devices, or more.
  const int64_t group_size = std::max<int64_t>(device_count, plan.micro_batch_group_size);
  const int64_t groups = (enough + group_size - 1) / group_size;
  const int64_t simulated = std::min(plan.micro_batch_count, groups * group_size);
  const std::vector<PipelineEvent> events = PipelineEvents(rules, times, simulated);
  if (!excerpt.whole) {
    excerpt.end = Seconds();
    for (const PipelineEvent& event : events) {
      if (event.stage_index == 0 && !event.is_backward && event.micro_batch_index < drawable) {
        excerpt.end = std::max(excerpt.end, event.end);
      }
    }
  }
  for (const PipelineEvent& event : events) {
    // A stage without layers takes no time, so there is nothing to draw of it.
    if (event.stage_index % device_count < row_count && event.start < excerpt.end &&
        event.end > event.start) {
      excerpt.events.push_back(event);
    }
  }
  return excerpt;
}

// `stage 3`, or `stages 3, 7, 11` of the devices that have several.
std::string RowName(int row, int stage_count, int device_count) {
  std::string name = absl::StrCat(stage_count > device_count ? "stages " : "stage ", row);
  for (int stage = row + device_count; stage < stage_count; stage += device_count) {
    absl::StrAppend(&name, ", ", stage);
  }
  return name;
}

const char* WordOf(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return ", forward, ";
    case PassKind::kBackward:
      return ", backward, ";
    case PassKind::kBackwardInputs:
      return ", backward for inputs, ";
    case PassKind::kBackwardWeights:
      return ", backward for weights, ";
  }
  return "";
}

// Draws every pass as a bar that says its times, with its number if there is room. Returns whether
// there was room for any number.
bool DrawPasses(const Excerpt& excerpt, int device_count, Chart& chart) {
  bool any_number = false;
  // All passes of a kind have a number, or none.
  int64_t last = 0;
  for (const PipelineEvent& event : excerpt.events) last = std::max(last, event.micro_batch_index);
  const size_t widest = absl::StrCat(last).size();
  for (const PipelineEvent& event : excerpt.events) {
    const double start = event.start / excerpt.end;
    const double end = std::min(event.end / excerpt.end, 1.0);
    const int row = event.stage_index % device_count;
    chart.AddBar(
        row, start, end, event.is_backward ? "backward" : "forward",
        absl::StrCat("stage ", event.stage_index, ", micro-batch ", event.micro_batch_index,
                     WordOf(event.kind), TimeText(event.start), " to ", TimeText(event.end)));
    any_number |= chart.AddWord(row, start, end, event.is_backward ? "on-backward" : "on-forward",
                                absl::StrCat(event.micro_batch_index), widest, /*plate=*/false);
  }
  return any_number;
}

// Returns the times of a stage of the row: of its first one that takes any, since those with layers
// are equal.
const StageTimes& TimesOfRow(const std::vector<StageTimes>& times, int row, int device_count) {
  const auto step = static_cast<size_t>(device_count);
  auto stage = static_cast<size_t>(row);
  while (times[stage].forward <= Seconds() && stage + step < times.size()) stage += step;
  return times[stage];
}

// All passes of a stage in one direction as one line with gaps.
void DrawStrokes(const Excerpt& excerpt, const std::vector<StageTimes>& times, int device_count,
                 int row_count, Chart& chart) {
  std::vector<std::string> strokes(size_t{2} * row_count);
  for (const PipelineEvent& event : excerpt.events) {
    const double start = 1000.0 * (event.start / excerpt.end);
    const double width = 1000.0 * std::min(event.end / excerpt.end, 1.0) - start;
    // A gap sets neighbours apart.
    const int row = event.stage_index % device_count;
    absl::StrAppend(&strokes[2 * row + (event.is_backward ? 1 : 0)],
                    absl::StrFormat("M%.1f %gh%.2f", start, chart.RowMiddle(row),
                                    width - std::min(0.5, 0.12 * width)));
  }
  std::string shapes;
  for (int i = 0; i < 2 * row_count; ++i) {
    if (strokes[i].empty()) continue;
    const bool backward = i % 2 == 1;
    const StageTimes& stage = TimesOfRow(times, i / 2, device_count);
    absl::StrAppend(
        &shapes, "<path class=\"strokes ", backward ? "backward" : "forward", "\" stroke-width=\"",
        chart.bar_height(), "\" d=\"", strokes[i], "\"><title>",
        RowName(i / 2, times.size(), device_count), backward ? ", backward, " : ", forward, ",
        TimeText(backward ? stage.backward : stage.forward), " per micro-batch</title></path>");
  }
  chart.AddStretched(shapes);
}

// The synchronisation that nothing hides, behind the last backward pass.
bool DrawGradientSync(const Excerpt& excerpt, const Prediction& prediction, int stage_count,
                      int row_count, Chart& chart) {
  const int device_count = static_cast<int>(prediction.stages.size());
  std::vector<Seconds> last_end(row_count);
  for (const PipelineEvent& event : excerpt.events) {
    Seconds& end = last_end[event.stage_index % device_count];
    end = std::max(end, event.end);
  }
  bool any = false;
  for (int row = 0; excerpt.whole && row < row_count; ++row) {
    const Seconds sync = prediction.stages[row].gradient_sync;
    if (sync <= Seconds()) continue;
    any = true;
    chart.AddBar(row, last_end[row] / excerpt.end,
                 std::min((last_end[row] + sync) / excerpt.end, 1.0), kGradientSyncFill,
                 absl::StrCat(RowName(row, stage_count, device_count),
                              ", gradient synchronisation that nothing hides: ", TimeText(sync)));
  }
  return any;
}

}  // namespace

std::string PipelineTimeline(const Plan& plan, const Prediction& prediction, bool blocking_messages,
                             bool serial_messages) {
  const std::vector<StageTimes> times = VirtualStageTimes(plan, prediction);
  const int stage_count = static_cast<int>(times.size());
  const int device_count = static_cast<int>(prediction.stages.size());
  const int row_count = std::min(device_count, kMaxChartRows);
  const PipelineRules rules = {.schedule = plan.schedule,
                               .virtual_stage_count = plan.virtual_stage_count,
                               .micro_batch_group_size = plan.micro_batch_group_size,
                               .blocking_messages = blocking_messages,
                               .serial_messages = serial_messages};
  const Excerpt excerpt = ExcerptOf(plan, prediction, rules, times, row_count);
  Chart chart("Pipeline timeline of one step", row_count, /*banner=*/false);
  for (int row = 0; row < row_count; ++row) {
    chart.AddRow(absl::StrCat("stage ", row), "");
  }
  bool any_sync = false;
  bool any_number = false;
  if (excerpt.end > Seconds() && excerpt.end.is_finite()) {
    if (static_cast<int64_t>(excerpt.events.size()) <= kMaxTooltipEvents) {
      any_number = DrawPasses(excerpt, device_count, chart);
    } else {
      DrawStrokes(excerpt, times, device_count, row_count, chart);
    }
    any_sync = DrawGradientSync(excerpt, prediction, stage_count, row_count, chart);
    chart.AddAxis(excerpt.end.value(), AxisUnit::kSeconds);
  }
  std::vector<LegendEntry> legend = {{"forward", "forward pass"}, {"backward", "backward pass"}};
  if (any_sync) legend.push_back({kGradientSyncFill, "gradient synchronisation nothing hides"});
  legend.push_back({"waiting", "waiting"});
  if (any_number) legend.push_back({"", "numbers: micro-batches"});
  std::string html = chart.Html() + Legend(legend);
  if (plan.virtual_stage_count > 1) {
    const bool has_empty = std::any_of(plan.stages.begin(), plan.stages.end(),
                                       [](const StagePlan& stage) { return stage.is_empty(); });
    absl::StrAppend(&html, "<p class=\"quiet\">The devices of a row have ",
                    plan.virtual_stage_count, " stages each, one after every ", device_count,
                    ", drawn equally long", has_empty ? " if they have layers" : "",
                    ": the prediction has their sums.</p>");
  }
  if (!excerpt.whole) {
    absl::StrAppend(&html, "<p class=\"quiet\">Drawn are the first ", TimeText(excerpt.end), " of ",
                    TimeText(prediction.step),
                    TraitsOf(plan.schedule).has_steady_state
                        ? ". The pattern goes on until the last micro-batch, then the pipeline "
                          "drains.</p>"
                        : ". The forward passes go on; when the last is done, the backward passes "
                          "follow in the same way.</p>");
  }
  return html;
}

}  // namespace parplan::report
