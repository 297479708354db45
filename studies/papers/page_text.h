// Helpers of the sections of the page (page_sections.h): Markdown, numbers as text, names of
// planners, cells.

#ifndef PARPLAN_STUDIES_PAPERS_PAGE_TEXT_H_
#define PARPLAN_STUDIES_PAPERS_PAGE_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "studies/papers/papers_results.h"

namespace parplan::papers {

// Names of two planners of the papers.
inline constexpr char kBmw[] = "galvatron-bmw";
inline constexpr char kBase[] = "galvatron-base";

// Names of the baselines: with one kind of parallelism, with several, and all.
const std::vector<std::string>& Pure();
const std::vector<std::string>& Hybrid();
std::vector<std::string> Baselines();

// Breaks a paragraph into lines of at most 100 bytes, longer only for a longer word, with an empty
// line behind the last one.
std::string Paragraph(absl::string_view text);

// Return a row of a table, and the first two lines of one, with line feeds at their ends. Cells are
// not escaped.
std::string Row(const std::vector<std::string>& cells);
std::string Head(const std::vector<std::string>& cells);

// Returns `18.69`, or `-` for the rate of no plan, 0.
std::string Rate(double samples_per_second);
// Return `+12.3 %` and `12.3 %` for 0.123.
std::string Signed(double ratio);
std::string Percent(double ratio);

// Returns the cells of the grid on so many devices.
std::vector<GridCell> CellsOf(const PapersResults& results, int device_count);

// Returns the share of the tree's optimum (`OptimumRate`) that a planner loses in a cell, 1 if it
// has no plan there; 0 without an optimum.
double LossOf(const GridCell& cell, absl::string_view planner);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAGE_TEXT_H_
