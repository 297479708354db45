// Formats text and numbers for the report. The charts and tables of this folder, the text views of
// planctl, and the studies of accuracy and of the papers use it. All functions are pure.

#ifndef PARPLAN_CLIENTS_REPORT_HTML_H_
#define PARPLAN_CLIENTS_REPORT_HTML_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/model/plan.h"
#include "planner/model/search_summary.h"

namespace parplan::report {

// Returns valid UTF-8 without characters that a browser acts on: control characters become spaces;
// invalid bytes, noncharacters and marks that change the direction of text become U+FFFD. `<`, `&`
// and quotes stay: for HTML there is `Escape`.
std::string Clean(absl::string_view text);

// Cleans the text and makes it safe as HTML content and between quotes.
std::string Escape(absl::string_view text);

// Most characters of a layer's name, and of a plan's gist (`PlanGist`), on the page. Not measured.
inline constexpr int kMaxNameLength = 60;
inline constexpr int kMaxGistLength = 240;

// Cleans the text and cuts it to `max_characters`; a text that was cut ends with `…`, which counts.
// REQUIRES, unchecked: `max_characters` is at least 1.
std::string Shorten(absl::string_view text, int max_characters);

// Returns `12.3 %` for 0.123; `–` if not finite.
std::string Percent(double ratio);

// Returns `18.7`, `1240` (`ThreeDigits` of base/quantity_text.h); `–` if not finite.
std::string Rate(double value);

// Returns `4` for one number from 4 on (or none), `4–7` for four of them.
std::string Range(int first, int count);

// Returns `1 layer`, `3 layers`: `noun` has an `s` behind it unless `count` is 1.
std::string Count(int64_t count, absl::string_view noun);

// Return the words for an item, for example `optimizer states`; they live as long as the program.
const char* Name(MemoryItemKind kind);
const char* Name(TimeItemKind kind);

// Returns the limit that ended a search without a proof, to follow `ended by`; empty if none did.
std::string EndOfSearch(SearchLimit limit);

// Returns `+3.1 %` for 0.031, `-12.0 %`, `±0 %`; `–` if not finite.
std::string Change(double ratio);

// Describes a strategy, for example `tensor parallel 4, data parallel 2 with
// parameters sharded, recomputed`.
std::string StrategyWords(const Strategy& strategy);

// Returns what follows the title of a schedule: `, groups of 12`, or nothing if groups have as many
// micro-batches as the pipeline has devices.
std::string GroupsText(const Plan& plan);

// Returns `A` to `Z` for 0 to 25, `AA` for 26 and so on: the letters of strategies in charts.
std::string Letter(int index);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_HTML_H_
