// Text for a terminal: lines of a bounded length, and gists with equal stages
// folded.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace parplan::planctl {

// Columns that no line of planctl's text goes beyond, but for words that are
// longer themselves.
inline constexpr int kTextWidth = 96;

// Characters of UTF-8 text, each taken as one column.
int ColumnCount(absl::string_view text);

// `text` broken at its spaces so that a line that starts at column `indent` ends
// at `kTextWidth`; a number and its unit (`4.2 ms`, `1 %`) stay together. Lines after the first
// start with `indent` spaces; the last has no newline.
std::string Wrap(absl::string_view text, int indent);

// A gist (`PlanGist`) with runs of equal stages written once:
// `8-1-1 x5 | 8-1-1 x4 | 8-1-1 x4` is `8-1-1 x5 | 8-1-1 x4 (2 stages)`.
std::string FoldGist(absl::string_view gist);

// `Wrap` of a folded gist that keeps `8-1-1 x4 (2 stages)` together.
std::string WrapGist(absl::string_view gist, int indent);

// Sentences `subject: rest` with the same rest as one, subjects joined by commas,
// in the order of their first. Sentences without a subject stay as they are.
std::vector<std::string> JoinSubjects(const std::vector<std::string>& sentences);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_TEXT_LAYOUT_H_
