#include "studies/papers/page_text.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace parplan::papers {

const std::vector<std::string>& Pure() {
  static const auto& names =
      *new std::vector<std::string>(std::begin(kPurePlanners), std::end(kPurePlanners));
  return names;
}

const std::vector<std::string>& Hybrid() {
  static const auto& names =
      *new std::vector<std::string>(std::begin(kHybridPlanners), std::end(kHybridPlanners));
  return names;
}

std::vector<std::string> Baselines() {
  std::vector<std::string> names = Pure();
  names.insert(names.end(), Hybrid().begin(), Hybrid().end());
  return names;
}

std::string Paragraph(absl::string_view text) {
  std::string lines, line;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && line.size() + 1 + word.size() > 100) {
      absl::StrAppend(&lines, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  return absl::StrCat(lines, line, "\n\n");
}

std::string Row(const std::vector<std::string>& cells) {
  return absl::StrCat("| ", absl::StrJoin(cells, " | "), " |\n");
}

std::string Head(const std::vector<std::string>& cells) {
  std::string rule = "|";
  for (size_t i = 0; i < cells.size(); ++i) absl::StrAppend(&rule, "---|");
  return absl::StrCat(Row(cells), rule, "\n");
}

std::string Rate(double samples_per_second) {
  return samples_per_second > 0.0 ? absl::StrFormat("%.2f", samples_per_second) : "-";
}

std::string Signed(double ratio) { return absl::StrFormat("%+.1f %%", 100.0 * ratio); }

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100.0 * ratio); }

std::vector<GridCell> CellsOf(const PapersResults& results, int device_count) {
  std::vector<GridCell> cells;
  for (const GridCell& cell : results.grid) {
    if (cell.device_count == device_count) cells.push_back(cell);
  }
  return cells;
}

double LossOf(const GridCell& cell, absl::string_view planner) {
  const double optimum = cell.OptimumRate();
  return optimum > 0.0 ? 1.0 - cell.RateOf(planner) / optimum : 0.0;
}

}  // namespace parplan::papers
