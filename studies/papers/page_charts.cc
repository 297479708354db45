// `PapersPictures` of papers_page.h.

#include "studies/papers/papers_page.h"

#include <algorithm>

#include "studies/papers/line_chart.h"
#include "studies/papers/page_sections.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string TimeChart(const PapersResults& results, const std::string& axis,
                      const std::string& title, const std::string& x_name) {
  LineChart chart{.title = title,
                  .x_name = x_name,
                  .y_name = "processor seconds",
                  .log_x = true,
                  .log_y = true,
                  .lines = {}};
  const std::vector<TimedSearch> searches = SearchesOf(results, axis);
  for (const std::string& planner : PlannersOf(searches)) {
    ChartLine line{.name = planner, .points = {}};
    for (const TimedSearch& timed : searches) {
      if (timed.planner == planner) line.points.emplace_back(timed.value, timed.seconds);
    }
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  }
  return ChartSvg(chart);
}

std::string OptimumChart(const PapersResults& results) {
  LineChart chart{.title = "Rate as a share of the tree's proved optimum, cells sorted by it",
                  .x_name = "cells of the grid",
                  .y_name = "share of the optimum",
                  .lines = {}};
  for (const char* const planner :
       {kPaperPlanners[0], kPaperPlanners[1], kPaperPlanners[2], kBmwAlone}) {
    std::vector<double> shares;
    for (const GridCell& cell : results.grid) shares.push_back(1.0 - LossOf(cell, planner));
    std::sort(shares.begin(), shares.end());
    ChartLine line{.name = planner, .points = {}};
    for (size_t index = 0; index < shares.size(); ++index) {
      line.points.emplace_back(static_cast<double>(index + 1), shares[index]);
    }
    chart.lines.push_back(std::move(line));
  }
  return ChartSvg(chart);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> PapersPictures(const PapersResults& results) {
  std::vector<std::pair<std::string, std::string>> pictures;
  if (!results.grid.empty()) pictures.emplace_back("papers-optimum.svg", OptimumChart(results));
  if (!SearchesOf(results, "layers").empty()) {
    pictures.emplace_back(
        "papers-layers.svg",
        TimeChart(results, "layers", "Search time against layers; 0.5 s ends a search", "layers"));
  }
  if (!SearchesOf(results, "devices").empty()) {
    pictures.emplace_back("papers-devices.svg",
                          TimeChart(results, "devices",
                                    "Search time against devices; 0.5 s ends a search", "devices"));
  }
  if (!SearchesOf(results, "granularity").empty()) {
    pictures.emplace_back("papers-granularity.svg",
                          TimeChart(results, "granularity",
                                    "Search time of galvatron-bmw; 0.5 s ends a search", "layers"));
  }
  return pictures;
}

}  // namespace parplan::papers
