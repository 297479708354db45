#include "clients/planctl/report/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/planctl/report/charts.h"
#include "clients/planctl/report/html.h"

namespace parplan {
namespace {

using report::Escape;
using report::Percent;
using report::Size;
using report::Time;

std::string Tile(const std::string& value, const std::string& label) {
  return absl::StrCat("<div class=\"tile\"><b>", Escape(value), "</b><span>", Escape(label),
                      "</span></div>");
}

const char* ConfidenceText(Confidence confidence) {
  switch (confidence) {
    case Confidence::kMeasured:
      return "Every number rests on a measurement.";
    case Confidence::kMixed:
      return "Most numbers rest on measurements; these do not:";
    case Confidence::kEstimated:
      return "No layer time was measured; take the prediction as an estimate:";
  }
  return "";
}

std::string Tiles(const ReportInput& input) {
  const Prediction& prediction = input.prediction;
  const Plan& plan = input.plan;
  return absl::StrCat(
      "<div class=\"tiles\">", Tile(Time(prediction.step), "predicted step time"),
      Tile(absl::StrFormat("%.2f", prediction.samples_per_second), "samples per second"),
      Tile(Size(prediction.peak_memory),
           absl::StrCat("fullest device, of ", Size(prediction.usable_memory), " usable")),
      Tile(absl::StrCat(plan.pipeline_parallel_degree(), " × ", plan.stages.front().rank_count),
           "stages × devices per stage"),
      Tile(absl::StrCat(plan.micro_batch_count, " × ", plan.micro_batch_size()),
           "micro-batches × samples"),
      Tile(input.search.termination == Termination::kOptimal ? std::string("optimal")
                                                              : Percent(input.search.gap_ratio),
           input.search.termination == Termination::kOptimal ? "proved, in the declared space"
                                                              : "at most from the proved bound"),
      "</div>");
}

std::string StageTable(const ReportInput& input) {
  std::string html =
      "<div class=\"scroll\"><table><tr><th>stage</th><th>devices</th><th>layers</th>"
      "<th>forward</th><th>backward</th><th>sync</th><th>waits</th><th>in flight</th>"
      "<th>peak memory</th></tr>";
  for (size_t i = 0; i < input.prediction.stages.size(); ++i) {
    const StagePrediction& stage = input.prediction.stages[i];
    const StagePlan& plan = input.plan.stages[i];
    absl::StrAppend(&html, "<tr><td>", i, "</td><td>", plan.first_rank, "–",
                    plan.first_rank + plan.rank_count - 1, "</td><td>", plan.first_layer_index(),
                    "–", plan.first_layer_index() + plan.layer_count() - 1, "</td><td>",
                    Time(stage.forward), "</td><td>", Time(stage.backward), "</td><td>",
                    Time(stage.gradient_sync), "</td><td>", Percent(stage.idle_ratio),
                    "</td><td>", stage.in_flight_micro_batch_count, "</td><td>",
                    Size(stage.peak_memory()), "</td></tr>");
  }
  return html + "</table></div>";
}

std::string RivalTable(const ReportInput& input) {
  if (input.rivals.empty()) return "";
  std::string html =
      "<h2>Compared with plain strategies</h2><p class=\"quiet\">The same model, devices, batch "
      "and cost model; only the space differs.</p><div class=\"scroll\"><table><tr><th>planner"
      "</th><th>samples/s</th><th>step</th><th>peak memory</th><th class=\"left\">plan</th></tr>";
  for (const ReportRival& rival : input.rivals) {
    absl::StrAppend(&html, rival.planner == input.planner ? "<tr class=\"best\">" : "<tr>",
                    "<td>", Escape(rival.planner), "</td>");
    if (rival.feasible) {
      absl::StrAppend(&html, "<td>", absl::StrFormat("%.2f", rival.samples_per_second),
                      "</td><td>", Time(rival.step), "</td><td>", Size(rival.peak_memory),
                      "</td><td class=\"left gist\">", Escape(rival.gist), "</td></tr>");
    } else {
      absl::StrAppend(&html, "<td>–</td><td>–</td><td class=\"bad\">does not fit</td>"
                      "<td class=\"left\">needs ", Size(rival.smallest_device_memory),
                      " per device</td></tr>");
    }
  }
  return html + "</table></div>";
}

std::string Assumptions(const Prediction& prediction) {
  std::string html = absl::StrCat("<h2>How sure this is</h2><p>",
                                  ConfidenceText(prediction.confidence), "</p>");
  if (prediction.estimated_items.empty()) return html;
  html += "<ul>";
  for (const std::string& item : prediction.estimated_items) {
    absl::StrAppend(&html, "<li>", Escape(item), "</li>");
  }
  return html + "</ul>";
}

std::string Facts(const ReportInput& input) {
  if (input.facts.empty()) return "";
  std::string html = "<h2>Where it comes from</h2><dl>";
  for (const ReportFact& fact : input.facts) {
    absl::StrAppend(&html, "<dt>", Escape(fact.label), "</dt><dd>", Escape(fact.text), "</dd>");
  }
  return html + "</dl>";
}

}  // namespace

std::string RenderReport(const ReportInput& input) {
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>", Escape(input.title),
      "</title><style>", report::StyleSheet(), "</style></head><body><main><h1>",
      Escape(input.title), "</h1><p class=\"gist\">", Escape(PlanGist(input.plan)), "</p>",
      Tiles(input), "<p>What limits it: ", Escape(input.prediction.bottleneck_text), ".</p>",
      "<h2>One step</h2><p class=\"quiet\">Each row is a stage; hold the pointer over a piece "
      "for its times.</p>", report::PipelineTimeline(input.plan, input.prediction),
      StageTable(input), "<h2>Memory of one device</h2><p class=\"quiet\">By item; the line is "
      "what a device may hold.</p>", report::MemoryBars(input.prediction),
      "<h2>Layers</h2><p class=\"quiet\">How every layer is spread over the devices of its "
      "stage.</p>", report::StrategyStrip(input.plan, input.layer_names),
      "<h2>Time of one micro-batch</h2>", report::TimeBars(input.prediction), RivalTable(input),
      Assumptions(input.prediction), Facts(input), "</main></body></html>\n");
}

}  // namespace parplan
