// `AccuracyHtml` of accuracy_report.h.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "clients/report/html.h"
#include "clients/report/style.h"
#include "studies/accuracy/accuracy_report.h"
#include "studies/accuracy/embedded_files.h"
#include "studies/accuracy/scatter_chart.h"

namespace parplan::accuracy {
namespace {

using report::Escape;

// Points of one chart and rows of one table at most.
constexpr size_t kMaxPoints = 1500;
constexpr size_t kMaxRows = 120;

std::string PercentCell(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%.1f %%", 100.0 * *ratio) : "–";
}

std::string SignedCell(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%+.1f %%", 100.0 * *ratio) : "–";
}

// A table whose first columns are words. Cells are escaped here.
class Table {
 public:
  Table(absl::string_view label, const std::vector<const char*>& heads)
      : html_(absl::StrCat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                           Escape(label), "\"><table><thead><tr>")) {
    for (const char* head : heads) {
      absl::StrAppend(&html_, "<th scope=\"col\">", Escape(head), "</th>");
    }
    html_ += "</tr></thead><tbody>";
  }
  // The first cell is a name, the others figures; those in `words` from its place
  // on are sentences.
  void Row(const std::vector<std::string>& cells, size_t words_from) {
    html_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      const char* css = i == 0 ? " class=\"name\"" : i >= words_from ? " class=\"left words\"" : "";
      absl::StrAppend(&html_, "<td", css, ">", Escape(cells[i]), "</td>");
    }
    html_ += "</tr>";
  }
  std::string Html() const { return html_ + "</tbody></table></div>"; }

 private:
  std::string html_;
};

constexpr size_t kNoWords = 100;

std::string Section(absl::string_view title, absl::string_view intro, const std::string& body) {
  return absl::StrCat(
      "<section><h2>", Escape(title), "</h2>",
      intro.empty() ? "" : absl::StrCat("<p class=\"quiet\">", Escape(intro), "</p>"), body,
      "</section>");
}

std::string SourceTableHtml(const AccuracySummary& summary) {
  Table table("Errors by source",
              {"source", "rows", "skipped", "time MAPE", "median", "bias", "memory MAPE", "bias",
               "under", "OOMs refused", "false refusals"});
  const auto add = [&table](const std::string& name, const AccuracyFigures& figures,
                            const std::string& skipped) {
    table.Row(
        {name, absl::StrCat(figures.count), skipped, PercentCell(figures.time_mape),
         PercentCell(figures.time_median), SignedCell(figures.time_bias),
         PercentCell(figures.memory_mape), SignedCell(figures.memory_bias),
         PercentCell(figures.memory_under_rate),
         figures.oom_total == 0 ? "–"
                                : absl::StrCat(figures.oom_refused, " of ", figures.oom_total),
         PercentCell(figures.false_refusals)},
        kNoWords);
  };
  for (const auto& [source, accuracy] : summary.sources) {
    add(source, accuracy.all, absl::StrCat(accuracy.skipped));
    if (accuracy.unfitted.count != accuracy.all.count) {
      add(source + ", unfitted", accuracy.unfitted, "");
    }
  }
  return table.Html();
}

std::string Chart(const std::string& source, const std::vector<ScatterPoint>& points,
                  report::AxisUnit unit) {
  const bool time = unit == report::AxisUnit::kSeconds;
  std::vector<ScatterPoint> drawn = points;
  if (drawn.size() > kMaxPoints) drawn.resize(kMaxPoints);
  const std::string chart = ScatterChart(
      absl::StrCat(time ? "Step time" : "Peak memory", " of ", source, ", predicted and measured"),
      drawn, unit);
  if (chart.empty()) return "";
  std::string html =
      absl::StrCat("<p><b>", time ? "Time of a step" : "Peak memory", "</b></p>", chart);
  if (drawn.size() < points.size()) {
    absl::StrAppend(&html, "<p class=\"quiet\">Drawn are the first ", drawn.size(), " of ",
                    points.size(), " runs.</p>");
  }
  return html;
}

std::string WorstTable(const std::string& source, const SourceAccuracy& accuracy) {
  if (accuracy.worst_time.empty() && accuracy.worst_memory.empty()) return "";
  Table table(absl::StrCat("Worst of ", source),
              {"run", "what", "error", "predicted", "measured", "largest terms"});
  for (const AccuracyRow* row : accuracy.worst_time) {
    table.Row({row->id, "time", SignedCell(row->TimeError()), TimeText(row->prediction.step),
               TimeText(*row->measured_step), DominatingTerms(row->prediction.time_items)},
              5);
  }
  for (const AccuracyRow* row : accuracy.worst_memory) {
    table.Row({row->id, "memory", SignedCell(row->MemoryError()), SizeText(row->prediction.memory),
               SizeText(*row->measured_memory), DominatingTerms(row->prediction.memory_items)},
              5);
  }
  return table.Html();
}

std::string SourceSection(const AccuracySummary& summary, const std::string& source,
                          const SourceAccuracy& accuracy) {
  std::vector<ScatterPoint> times;
  std::vector<ScatterPoint> sizes;
  std::string view;
  for (const AccuracyRow& row : summary.rows) {
    if (row.source != source) continue;
    const std::string id = report::Shorten(row.id, 90);
    if (row.measured_step.has_value()) {
      times.push_back({row.measured_step->value(), row.prediction.step.value(), row.fitted,
                       absl::StrCat(id, ": ", TimeText(row.prediction.step), " for ",
                                    TimeText(*row.measured_step))});
    }
    if (row.measured_memory.has_value()) {
      view = ViewWords(row.memory_view);
      sizes.push_back({row.measured_memory->as_double(), row.prediction.memory.as_double(),
                       row.fitted,
                       absl::StrCat(id, ": ", SizeText(row.prediction.memory), " for ",
                                    SizeText(*row.measured_memory))});
    }
  }
  const std::string charts = absl::StrCat(Chart(source, times, report::AxisUnit::kSeconds),
                                          Chart(source, sizes, report::AxisUnit::kBytes));
  if (charts.empty()) return "";
  std::string intro =
      "A dot is a run; on the line its prediction is right, on the dashed lines 20 % off. Hollow "
      "dots had a say in the coefficients.";
  if (!view.empty()) absl::StrAppend(&intro, " The peak published is of ", view, ".");
  return Section(source, intro, absl::StrCat(charts, WorstTable(source, accuracy)));
}

std::string GroupSection(const AccuracySummary& summary) {
  if (summary.groups.empty()) return "";
  Table table("Groups", {"source", "plans", "regret", "rank correlation", "job"});
  size_t count = 0;
  for (const JobGroup& group : summary.groups) {
    if (count++ == kMaxRows) break;
    table.Row({group.source, absl::StrCat(group.plan_count), PercentCell(group.regret),
               group.rank_correlation.has_value() ? absl::StrFormat("%.2f", *group.rank_correlation)
                                                  : "–",
               group.job_key.substr(std::min(group.job_key.size(), group.source.size() + 2))},
              4);
  }
  std::string html = table.Html();
  if (summary.groups.size() > kMaxRows) {
    absl::StrAppend(&html, "<p class=\"quiet\">The first ", kMaxRows, " of ", summary.groups.size(),
                    " groups.</p>");
  }
  return Section("Choosing by prediction",
                 "One job under several plans: how much slower the plan predicted fastest was "
                 "than the fastest measured, and how well the orders agree.",
                 html);
}

std::string SkippedSection(const AccuracySummary& summary) {
  if (summary.skipped.empty()) return "";
  Table table("Skipped", {"source", "rows", "reason", "for example"});
  const std::vector<SkipReason> reasons = SkipReasons(summary);
  for (size_t i = 0; i < reasons.size() && i < kMaxRows; ++i) {
    table.Row({reasons[i].source, absl::StrCat(reasons[i].count), reasons[i].reason,
               report::Shorten(reasons[i].example, 60)},
              2);
  }
  std::string html = table.Html();
  if (reasons.size() > kMaxRows) {
    absl::StrAppend(&html, "<p class=\"quiet\">The first ", kMaxRows, " of ", reasons.size(),
                    " reasons.</p>");
  }
  return Section("Not predicted",
                 "Runs the planner has no words for, and rows that lack something.", html);
}

std::string Tile(const std::string& value, const char* label) {
  return absl::StrCat("<div class=\"tile\"><b>", Escape(value), "</b><span>", Escape(label),
                      "</span></div>");
}

}  // namespace

std::string AccuracyHtml(const AccuracySummary& summary) {
  std::string sections;
  for (const auto& [source, accuracy] : summary.sources) {
    sections += SourceSection(summary, source, accuracy);
  }
  return absl::StrCat(
      report::PageHead("Accuracy of predictions", AccuracyFiles().front().text),
      "<body><main><header><h1>Accuracy of predictions</h1>"
      "<p class=\"quiet\">Measured training runs that others published, and what the cost model "
      "expects of them.</p></header><div class=\"tiles\">",
      Tile(absl::StrCat(summary.rows.size()), "runs predicted"),
      Tile(absl::StrCat(summary.skipped.size()), "rows skipped"),
      Tile(absl::StrCat(summary.sources.size()), "sources"), "</div>",
      Section("Errors by source",
              "MAPE is the mean of absolute relative errors; a positive bias is too high.",
              SourceTableHtml(summary)),
      sections, GroupSection(summary), SkippedSection(summary),
      Section(
          "Where it comes from", "",
          absl::StrCat("<dl><dt>calibration</dt><dd>",
                       Escape(report::Shorten(summary.calibration_id, 200)),
                       "</dd><dt>slice rule</dt><dd>", Escape(FittedSliceRule()), "</dd></dl>")),
      "</main></body></html>\n");
}

}  // namespace parplan::accuracy
