// The page docs/measurements/papers.md and its pictures, made of the results alone. The command
// `parplan-study papers` writes them.

#ifndef PARPLAN_STUDIES_PAPERS_PAPERS_PAGE_H_
#define PARPLAN_STUDIES_PAPERS_PAPERS_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "studies/papers/papers_results.h"

namespace parplan::papers {

// Returns the page as Markdown; every figure and every verdict in it comes from `results`.
// REQUIRES, unchecked, here and below: rows are as the functions of this folder make them, with an
// answer of each planner and a rate of each setting.
std::string PapersPage(const PapersResults& results);

// Returns the pictures that the page shows: name of the file in docs/images, and its SVG. A picture
// without results is left out. Aborts for a timed search of no seconds, which has no place on a
// logarithmic axis, and for more than six planners in one picture.
std::vector<std::pair<std::string, std::string>> PapersPictures(const PapersResults& results);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAPERS_PAGE_H_
