// The look of the page: its style sheet and the fills of bars.
//
// A fill is one of eight colours with one of four textures. Colours are far apart in lightness as
// well as in hue, neighbours differ in texture too, and every number a bar shows is also in a
// table, so that nothing rests on telling hues apart. `RenderReport` and the page of the accuracy
// study use it.

#ifndef PARPLAN_CLIENTS_REPORT_STYLE_H_
#define PARPLAN_CLIENTS_REPORT_STYLE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Return the CSS class that fills a bar; it lives as long as the program.
const char* FillClass(MemoryItemKind kind);
const char* FillClass(TimeItemKind kind);
// The class of the bars of gradient synchronisation that nothing hides, in the timeline.
inline constexpr const char* kGradientSyncFill = "f32";
// Returns the CSS class of a strategy of a plan, which counts from 0; repeats after 32.
std::string StrategyFillClass(int index);

// Returns a page from its first byte to the end of its head: `title`, any text, and the style sheet
// for light and dark screens and for print, followed by `more_style`, CSS that is not escaped. Its
// content security policy forbids requests and scripts.
std::string PageHead(absl::string_view title, absl::string_view more_style = "");

// Returns an invisible <svg> with the textures that the style sheet refers to.
std::string Textures();

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_STYLE_H_
