// Small pieces the charts share: escaping, numbers for people, colours.

#ifndef PARPLAN_CLIENTS_PLANCTL_REPORT_HTML_H_
#define PARPLAN_CLIENTS_PLANCTL_REPORT_HTML_H_

#include <string>

#include "absl/strings/string_view.h"
#include "planner/base/units.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Text for HTML content and attributes; control characters become spaces.
std::string Escape(absl::string_view text);

// `12.3 ms`, `1.24 s`; three significant digits.
std::string Time(Seconds seconds);

// `15.8 GB`, decimal units; three significant digits.
std::string Size(Bytes bytes);

// `12.3 %`.
std::string Percent(double ratio);

// Words of an item, for example `optimizer states`.
const char* Name(MemoryItemKind kind);
const char* Name(TimeItemKind kind);

// The CSS class that colours an item: `m0` to `m6`, `t0` to `t5`.
std::string ColourClass(MemoryItemKind kind);
std::string ColourClass(TimeItemKind kind);
// The class of the n-th distinct strategy, `s0` to `s9`, starting over.
std::string StrategyColourClass(int index);

// The style sheet of the page, light and dark.
const char* StyleSheet();

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_PLANCTL_REPORT_HTML_H_
