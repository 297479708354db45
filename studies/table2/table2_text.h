// The study of table 2 as a page in Markdown and as JSON. `parplan-study table2` prints one of
// them.

#ifndef PARPLAN_STUDIES_TABLE2_TABLE2_TEXT_H_
#define PARPLAN_STUDIES_TABLE2_TABLE2_TEXT_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "studies/table2/hypotheses.h"
#include "studies/table2/published_table.h"
#include "studies/table2/table_plans.h"

namespace parplan::table2 {

// Returns the page: docs/measurements/minimal-memory.md is this text with the default flags.
// REQUIRES, unchecked: `product` and `hypotheses` are as `PlanRows` and `TryHypotheses` return them
// for `table`. `hypotheses` may be empty; then the page ends after the first table.
std::string Table2Text(const PublishedTable& table, const ProductRows& product,
                       const std::vector<Hypothesis>& hypotheses);

// Returns the part of the page that has a hypothesis in full: 48 memories and 36 ratios.
// `Table2Text` shows it for the best one.
std::string HypothesisText(const PublishedTable& table, const Hypothesis& best);

// Returns the numbers of `Table2Text`, with every hypothesis (docs/studies.md). REQUIRES,
// unchecked: the arguments are as `Table2Text` requires them.
nlohmann::ordered_json Table2Json(const PublishedTable& table, const ProductRows& product,
                                  const std::vector<Hypothesis>& hypotheses);

}  // namespace parplan::table2

#endif  // PARPLAN_STUDIES_TABLE2_TABLE2_TEXT_H_
