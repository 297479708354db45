// Lays out text for a terminal: lines of a bounded length, and gists with equal stages folded. The
// text views in this folder are laid out by it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan::planctl {

// The longest line of planctl's text, in columns; only a longer word exceeds it. 96 leaves room
// for a prompt or a quotation in a terminal of 100 columns (not measured).
inline constexpr int kTextWidth = 96;

// Column at which the values of a plan's head start.
inline constexpr int kValueColumn = 13;

// Counts the characters of UTF-8 text, each taken as one column.
int ColumnCount(absl::string_view text);

// Returns `text` with spaces before it, so that it takes at least `columns` columns.
std::string PaddedLeft(const std::string& text, int columns);

// Breaks `text` at its spaces, of which several in a row become one, so that a line that starts at
// column `indent` ends at `kTextWidth`; a number and its unit (`4.2 ms`, `1 %`) stay together. The
// caller writes the `indent` columns before the first line; other lines start with as many spaces.
// The last has no newline.
std::string Wrap(absl::string_view text, int indent);

// Writes runs of equal stages of a gist (`PlanGist`) once:
// `8-1-1 x5 | 8-1-1 x4 | 8-1-1 x4` becomes `8-1-1 x5 | 8-1-1 x4 (2 stages)`.
std::string FoldGist(absl::string_view gist);

// Folds a gist and wraps it; keeps `8-1-1 x4 (2 stages)` on one line.
std::string WrapGist(absl::string_view gist, int indent);

// Joins the sentences `subject: rest` that have the same rest into one, with the subjects
// separated by commas, in the order of first appearance. The word `layer` before several subjects
// is written once, as `layers`. Sentences without a subject stay as they are.
std::vector<std::string> JoinSubjects(const std::vector<std::string>& sentences);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_
