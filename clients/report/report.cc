#include "clients/report/report.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/quantity_text.h"
#include "clients/report/chart.h"
#include "clients/report/charts.h"
#include "clients/report/html.h"
#include "clients/report/style.h"
#include "clients/report/tables.h"

namespace parplan {
namespace {

using report::Count;
using report::Escape;
using report::Percent;

constexpr int kMaxTitleLength = 200;
constexpr int kMaxFactLength = 4000;

std::string Tile(const std::string& value, const std::string& label, bool bad = false) {
  return absl::StrCat("<div class=\"tile\"><b", bad ? " class=\"bad\"" : "", ">", Escape(value),
                      "</b><span>", Escape(label), "</span></div>");
}

// Shows the proved distance of the plan from the best of its space.
std::string SearchTile(const SearchSummary& search) {
  if (search.termination == Termination::kOptimal) {
    return Tile("optimal", "proved, in the space that was searched");
  }
  const std::string end = report::EndOfSearch(search.limit);
  const std::string why = end.empty() ? "" : absl::StrCat("; the search ended by ", end);
  if (search.bound > Seconds() && search.gap_ratio < 1.0) {
    return Tile(absl::StrCat("≤ ", Percent(search.gap_ratio)),
                absl::StrCat("left to gain at best, proved: no step is shorter than ",
                             TimeText(search.bound), why));
  }
  return Tile("no proof", absl::StrCat("of how much is left to gain", why));
}

std::string Tiles(const ReportInput& input) {
  const Prediction& prediction = input.prediction;
  const Plan& plan = input.plan;
  const int devices = plan.stages.front().rank_count;
  return absl::StrCat(
      "<div class=\"tiles\">",
      Tile(TimeText(prediction.step),
           absl::StrCat("predicted time of a step, likely ", TimeText(prediction.step_lower),
                        " to ", TimeText(prediction.step_upper))),
      Tile(report::Rate(prediction.samples_per_second), "samples per second"),
      Tile(SizeText(prediction.peak_memory),
           absl::StrCat("on the fullest device, at most ", SizeText(prediction.peak_memory_upper),
                        " of ", SizeText(prediction.usable_memory), " usable"),
           !prediction.fits()),
      Tile(absl::StrCat(plan.pipeline_parallel_degree(), " × ", devices),
           absl::StrCat(plan.pipeline_parallel_degree() == 1 ? "stage" : "stages", " × ",
                        devices == 1 ? "device" : "devices", " of each")),
      Tile(absl::StrCat(plan.micro_batch_count, " × ", plan.micro_batch_size()),
           absl::StrCat(plan.micro_batch_count == 1 ? "micro-batch" : "micro-batches", " × ",
                        plan.micro_batch_size() == 1 ? "sample" : "samples", " of each")),
      SearchTile(input.search), "</div>");
}

std::string Alarm(const Prediction& prediction) {
  if (prediction.fits()) return "";
  return absl::StrCat(
      "<p class=\"alarm\"><b class=\"bad\">This plan does not fit.</b> The fullest "
      "device needs up to ",
      SizeText(prediction.peak_memory_upper), ", which is ",
      SizeText(prediction.peak_memory_upper - prediction.usable_memory),
      " more than it may hold.</p>");
}

std::string Header(const ReportInput& input) {
  const Plan& plan = input.plan;
  std::string lead =
      absl::StrCat("Schedule ", TraitsOf(plan.schedule).title, report::GroupsText(plan), ", ",
                   Count(plan.global_batch_size, "sample"), " a step");
  if (!input.planner.empty()) {
    lead = absl::StrCat("Planned by ", report::Shorten(input.planner, kMaxTitleLength), ". ", lead);
  }
  std::string html =
      absl::StrCat("<header><h1>", Escape(report::Shorten(input.title, kMaxTitleLength)),
                   "</h1><p class=\"quiet\">", Escape(lead), ".</p></header>",
                   Alarm(input.prediction), Tiles(input));
  if (!input.prediction.bottleneck_text.empty()) {
    absl::StrAppend(&html, "<p><b>What limits it:</b> ", Escape(input.prediction.bottleneck_text),
                    ".</p>");
  }
  // A longer one says less than the tables below.
  const std::string gist = PlanGist(plan);
  if (static_cast<int>(gist.size()) <= report::kMaxGistLength) {
    absl::StrAppend(&html, "<p><b>In one line:</b> <span class=\"code\">", Escape(gist),
                    "</span></p>");
  }
  return html;
}

std::string Section(const char* title, const std::string& intro, const std::string& body) {
  return absl::StrCat("<section><h2>", title, "</h2>",
                      intro.empty() ? "" : absl::StrCat("<p class=\"quiet\">", intro, "</p>"), body,
                      "</section>");
}

// Returns a note if a chart cannot draw all stages, else an empty text.
std::string RowsLeftOut(const Plan& plan) {
  if (plan.pipeline_parallel_degree() <= report::kMaxChartRows) return "";
  return absl::StrCat("<p class=\"quiet\">Drawn are the first ", report::kMaxChartRows, " of ",
                      plan.pipeline_parallel_degree(), " stages.</p>");
}

std::string Rivals(const ReportInput& input) {
  if (input.rivals.empty()) return "";
  return Section("Compared with plain strategies",
                 "The same model, devices, batch and cost model; only the space differs.",
                 report::RivalTable(input.rivals, input.planner));
}

std::string Beside(const ReportInput& input) {
  std::string html;
  if (!input.memory_front.empty()) {
    absl::StrAppend(&html,
                    Section("Time against memory",
                            "Of the plans that were searched none is both faster and smaller "
                            "than one of these. A row is a plan with its time of a step, the bar "
                            "its memory on the fullest device.",
                            report::FrontBars(input.memory_front, input.prediction) +
                                report::PlanTable(input.memory_front, input.prediction)));
  }
  if (!input.alternatives.empty()) {
    absl::StrAppend(&html,
                    Section("Next best plans",
                            "Each differs in depth, micro-batches, schedule, batch or degrees.",
                            report::PlanTable(input.alternatives, input.prediction)));
  }
  if (!input.notes.empty()) {
    std::string list = "<ul>";
    for (const std::string& note : input.notes) {
      absl::StrAppend(&list, "<li>", Escape(report::Shorten(note, kMaxFactLength)), "</li>");
    }
    absl::StrAppend(&html, Section("What the planner says", "", list + "</ul>"));
  }
  return html;
}

std::string Sureness(const Prediction& prediction) {
  const bool listed = !prediction.estimated_items.empty();
  std::string text;
  switch (prediction.confidence) {
    case Confidence::kMeasured:
      text = listed ? "The times of the layers were measured; these numbers were not:"
                    : "Every number rests on a measurement.";
      break;
    case Confidence::kMixed:
      text = listed ? "Most numbers rest on measurements; these do not:"
                    : "Most numbers rest on measurements, some do not.";
      break;
    case Confidence::kEstimated:
      text = listed ? "No layer time was measured; take the prediction as an estimate:"
                    : "No layer time was measured; take the prediction as an estimate.";
      break;
  }
  std::string body = absl::StrCat("<p>", text, "</p>");
  if (listed) {
    body += "<ul>";
    for (const std::string& item : prediction.estimated_items) {
      absl::StrAppend(&body, "<li>", Escape(report::Shorten(item, kMaxFactLength)), "</li>");
    }
    body += "</ul>";
  }
  return Section("How sure this is", "", body);
}

std::string Facts(const ReportInput& input) {
  if (input.facts.empty()) return "";
  std::string body = "<dl>";
  for (const ReportFact& fact : input.facts) {
    absl::StrAppend(&body, "<dt>", Escape(fact.label), "</dt><dd>",
                    Escape(report::Shorten(fact.text, kMaxFactLength)), "</dd>");
  }
  return Section("Where it comes from", "", body + "</dl>");
}

std::string Layers(const ReportInput& input) {
  const std::vector<Strategy> strategies = report::DistinctStrategies(input.plan);
  return absl::StrCat(report::StrategyStrip(input.plan, strategies, input.layer_names),
                      report::StrategyTable(input.plan, strategies),
                      report::LayerTable(input.plan, strategies, input.layer_names));
}

}  // namespace

std::string RenderReport(const ReportInput& input) {
  const Plan& plan = input.plan;
  const Prediction& prediction = input.prediction;
  PARPLAN_CHECK(!plan.stages.empty() &&
                static_cast<size_t>(plan.pipeline_parallel_degree()) == prediction.stages.size());
  const std::string rows_left_out = RowsLeftOut(plan);
  return absl::StrCat(
      report::PageHead(report::Shorten(input.title, kMaxTitleLength)), "<body>", report::Textures(),
      "<main>", Header(input),
      Section("One step",
              "A row is a stage, time runs to the right. Hold the pointer over a piece for its "
              "times.",
              report::PipelineTimeline(plan, prediction, input.blocking_messages,
                                       input.serial_messages) +
                  rows_left_out + report::StageTable(plan, prediction)),
      Section("Memory of one device",
              "At its fullest, in each stage; the line is what a device "
              "may hold.",
              report::MemoryBars(prediction) + rows_left_out + report::MemoryTable(prediction)),
      Section("Layers",
              "How every layer is spread over the devices of its stage. Equal letters "
              "are equal strategies.",
              Layers(input)),
      Section("Time of one micro-batch", "What each stage is busy with, forward and backward.",
              report::TimeBars(prediction) + rows_left_out + report::TimeTable(prediction)),
      Beside(input), Rivals(input), Sureness(prediction), Facts(input), "</main></body></html>\n");
}

}  // namespace parplan
