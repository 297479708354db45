// Helpers that the sections of docs/measurements/papers.md share (page_sections.h): Markdown,
// numbers as text, names of planners, cells of the grid. All are pure functions that any thread may
// call.

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

// Return the names of the baselines that use one kind of parallelism (`kPurePlanners`), of those
// that combine several (`kHybridPlanners`), and of both, in this order. The references stay valid
// to the end of the program.
const std::vector<std::string>& Pure();
const std::vector<std::string>& Hybrid();
std::vector<std::string> Baselines();

// Returns the words of `text` in lines of at most 100 bytes, a line being longer only if it is one
// longer word, and an empty line at the end.
std::string Paragraph(absl::string_view text);

// Returns a row of a Markdown table with a line feed at its end. Cells are not escaped: a `|` in
// one would divide it.
std::string Row(const std::vector<std::string>& cells);
// Returns the row with the titles of the columns and the rule below it.
std::string Head(const std::vector<std::string>& cells);

// Returns a rate with two decimals, `18.69`; `-` for 0, which stands for the absence of a plan.
std::string Rate(double samples_per_second);
// Return a ratio in percent with one decimal: `+12.3 %` with its sign and `12.3 %` for 0.123.
std::string Signed(double ratio);
std::string Percent(double ratio);

// Returns the cells of the grid for `device_count` devices, in the order of the results.
std::vector<GridCell> CellsOf(const PapersResults& results, int device_count);

// Returns the share of the best rate that the tree of strategies allows in a cell (`OptimumRate`)
// that `planner` loses: at most 1, which is for no plan; 0 if there is no optimum. Negative if its
// plan is faster, for example because it need not be in the tree.
double LossOf(const GridCell& cell, absl::string_view planner);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAGE_TEXT_H_
