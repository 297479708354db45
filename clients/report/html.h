// Formats text and numbers for the report. The charts and tables of this folder and the text views
// of planctl use it.

#ifndef PARPLAN_CLIENTS_REPORT_HTML_H_
#define PARPLAN_CLIENTS_REPORT_HTML_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/model/plan.h"
#include "planner/model/search_summary.h"

namespace parplan::report {

// Returns valid UTF-8 without characters that a browser acts on: control characters become spaces;
// invalid bytes, noncharacters and marks that change the direction of text become U+FFFD.
std::string Clean(absl::string_view text);

// Cleans the text and makes it safe as HTML content and between quotes.
std::string Escape(absl::string_view text);

// Most characters of a layer's name, and of a plan's gist (`PlanGist`), on the page. Not measured.
inline constexpr int kMaxNameLength = 60;
inline constexpr int kMaxGistLength = 240;

// Cleans the text and cuts it to `max_characters`; a text that was cut ends with `…`, which counts.
// REQUIRES: `max_characters` is at least 1.
std::string Shorten(absl::string_view text, int max_characters);

// Returns `12.3 %` for 0.123; `–` if not finite.
std::string Percent(double ratio);

// Returns `18.7`, `1240`: at least three significant digits; `–` if not finite.
std::string Rate(double value);

// Returns `4` for one, `4–7` for several.
std::string Range(int first, int count);

// Returns `1 layer`, `3 layers`.
std::string Count(int64_t count, absl::string_view noun);

// Returns the words for an item, for example `optimizer states`.
const char* Name(MemoryItemKind kind);
const char* Name(TimeItemKind kind);

// Returns the limit that ended a search without a proof, to follow `ended by`; empty if none did.
std::string EndOfSearch(SearchLimit limit);

// Returns `+3.1 %`, `-12.0 %`, `±0 %`.
std::string Change(double ratio);

// Describes a strategy, for example `tensor parallel 4, data parallel 2 with
// parameters sharded, recomputed`.
std::string StrategyWords(const Strategy& strategy);

// Returns what follows the title of a schedule: `, groups of 12`, or nothing if groups have as many
// micro-batches as the pipeline has devices.
std::string GroupsText(const Plan& plan);

// Returns `A` to `Z`, `AA` and so on: the letter of the n-th strategy in charts.
std::string Letter(int index);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_HTML_H_
