// The sections of the page, each as Markdown. Without results for it a section is empty, except
// `GridSection`, `OrderSection`, `SpeedUpSection`, `CertificateSection` and `ChecksSection`, which
// have their words all the same. `PapersPage` puts the sections together.

#ifndef PARPLAN_STUDIES_PAPERS_PAGE_SECTIONS_H_
#define PARPLAN_STUDIES_PAPERS_PAGE_SECTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "studies/papers/papers_results.h"

namespace parplan::papers {

// Predicted rates, who is behind whom, and the largest speed-ups (grid_sections.cc).
std::string GridSection(const PapersResults& results);
std::string OrderSection(const PapersResults& results);
std::string SpeedUpSection(const PapersResults& results);

// The statements of Galvatron's summary about more than 8 devices, and of search time
// (statements_section.cc).
std::string StatementsSection(const PapersResults& results);

// `galvatron-bmw` against the proved optimum of its space (certificate_section.cc).
std::string CertificateSection(const PapersResults& results);

// The worth of each part of the method, and its losses (part_sections.cc).
std::string AblationSection(const PapersResults& results);
std::string PipelineSection(const PapersResults& results);
std::string ForwardMemorySection(const PapersResults& results);

// The limits of BMW's walks (walks_section.cc).
std::string WalksSection(const PapersResults& results);

// Coarser memory and fused layers, and search times (time_sections.cc).
std::string GranularitySection(const PapersResults& results);
std::string TimesSection(const PapersResults& results);
// Returns the commit that made the searches of an axis; empty if it is not said. Rates of several
// commits are not compared, since another cost model makes others.
std::string CommitOf(const PapersResults& results, absl::string_view axis);
// Return the timed searches of an axis, in their order, and the planners of some searches, each
// once, in the order in which they were asked.
std::vector<TimedSearch> SearchesOf(const PapersResults& results, absl::string_view axis);
std::vector<std::string> PlannersOf(const std::vector<TimedSearch>& searches);

// The error of estimates, and the checks that the summary asks for (check_sections.cc).
std::string OverlapSection(const PapersResults& results);
std::string ChecksSection(const PapersResults& results);

// Devices of several kinds, one of these checks (unlike_section.cc).
std::string UnlikeSection(const PapersResults& results);
// Numbers of rows in which all devices taken as alike are slower than the stronger ones alone, and
// than both nodes by themselves.
struct UnlikeSummary {
  int alone_is_faster_count = 0;
  int apart_is_faster_count = 0;
};
// Returns these numbers for `rows`.
UnlikeSummary SummaryOf(const std::vector<UnlikeRow>& rows);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAGE_SECTIONS_H_
