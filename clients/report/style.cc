#include "clients/report/style.h"

#include "absl/strings/str_cat.h"
#include "clients/report/html.h"

namespace parplan::report {
namespace {

constexpr int kColourCount = 8;
constexpr int kTextureCount = 4;

// What is drawn over the colour of a fill, in a tile of 8 by 8.
constexpr const char* kTextures[kTextureCount] = {
    "",
    "M-2 2 2 -2M0 8 8 0M6 10 10 6",
    "M1 2h2M5 6h2",
    "M-2 6 2 10M0 0 8 8M6 -2 10 2",
};

constexpr const char* kColours = R"(
:root{color-scheme:light dark;--page:#f7f6f2;--ink:#1b2230;--quiet:#566072;--line:#dcdcd8;
--card:#ffffff;--limit:#b3261e;--edge:#1b223066;--grain:#1b223099;--best:#eaf1fa;
--forward:#a3cdf2;--backward:#b4541a;--wait:#efeeea;
--c0:#3b78bd;--c1:#e8a32c;--c2:#2f9a78;--c3:#c9679f;--c4:#f1df6b;--c5:#b4541a;--c6:#a3cdf2;
--c7:#9aa1ac}
@media screen and (prefers-color-scheme:dark){:root{--page:#13161b;--ink:#e9ebf0;--quiet:#a8b0be;
--line:#333945;--card:#1b1f27;--limit:#ff9a90;--edge:#0a0c1099;--grain:#0a0c10bb;--best:#222d3d;
--forward:#8fc1ec;--backward:#b9571c;--wait:#252a33;
--c0:#5590d6;--c1:#e8a94a;--c2:#45b08c;--c3:#d67fb0;--c4:#f0e07a;--c5:#b9571c;--c6:#8fc1ec;
--c7:#868e9b}}
)";

constexpr const char* kLayout = R"(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
main{max-width:70rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 .35rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;line-height:1.3;margin:0 0 .25rem}
section{margin:2.75rem 0 0}
p{margin:.25rem 0 .75rem;max-width:46rem;overflow-wrap:anywhere}
.quiet{color:var(--quiet)}
ul{padding-left:1.25rem;overflow-wrap:anywhere}
.code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.9em}
.bad{color:var(--limit)}
.alarm{border:2px solid var(--limit);border-radius:.5rem;padding:.6rem .9rem;margin:1rem 0;
max-width:none}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.75rem;
margin:1.25rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;
padding:.7rem .9rem}
.tile b{display:block;font-size:1.45rem;line-height:1.3;font-weight:650}
.tile span{display:block;color:var(--quiet);font-size:.85rem;line-height:1.35}
)";

constexpr const char* kCharts = R"(
.chart{--row:28px;display:grid;grid-template-columns:max-content minmax(0,1fr) max-content;
column-gap:.7rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem;
padding:.8rem .9rem .5rem;margin-top:.75rem}
.chart.low{--row:16px}
.names span,.figures span{display:block;height:var(--row);line-height:var(--row);
font-size:13px;color:var(--quiet);white-space:nowrap;text-align:right;
font-variant-numeric:tabular-nums}
.figures span{color:var(--ink)}
.low .names span,.low .figures span{font-size:11px}
.below-banner{padding-top:22px}
.plot{display:block}
svg text{font:12px system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;fill:var(--quiet)}
svg text.on-forward{fill:#14263a}svg text.on-backward{fill:#fff}
svg text.on-forward,svg text.on-backward,svg text.letter{font-size:11px;pointer-events:none}
svg text.letter{fill:var(--ink);font-weight:600}
svg text.limit-text{fill:var(--limit);font-weight:600}
.plate{fill:var(--card);pointer-events:none}
.grid{stroke:var(--line);stroke-width:1}
.limit{stroke:var(--limit);stroke-width:2;stroke-dasharray:5 3}
.plot rect:not(.plate),.swatch rect{stroke:var(--edge);stroke-width:.75}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.waiting{fill:var(--card)}.swatch rect.waiting{stroke:var(--quiet)}
.strokes{fill:none}.strokes.forward{stroke:var(--forward)}.strokes.backward{stroke:var(--backward)}
.edges{fill:none;stroke:var(--edge);stroke-width:1;vector-effect:non-scaling-stroke;
pointer-events:none}
.grain{fill:none;stroke:var(--grain);stroke-width:1.4}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.6rem 0 .9rem;padding:0;
list-style:none;font-size:.85rem;color:var(--quiet)}
.legend li{display:flex;align-items:center;gap:.45rem}
.swatch{flex:none;vertical-align:-2px}
.textures{position:absolute;width:0;height:0}
)";

constexpr const char* kTables = R"(
.scroll{overflow:auto;max-height:34rem;margin:.75rem 0;border:1px solid var(--line);
border-radius:.5rem;background:var(--card)}
table{border-collapse:separate;border-spacing:0;width:100%;font-size:.875rem;
font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .65rem;border-bottom:1px solid var(--line);
vertical-align:top;white-space:nowrap;background:var(--card)}
tr:last-child td{border-bottom:0}
th{position:sticky;top:0;font-weight:600;color:var(--quiet)}
th:first-child,td:first-child{position:sticky;left:0;z-index:1}
th:first-child{z-index:2}
th:first-child,td:first-child,.left{text-align:left}
td.words{white-space:normal;width:60%;min-width:15rem;overflow-wrap:anywhere}
td.bar{width:24%;min-width:7rem}
td.bar svg{margin-top:.25rem}
tr.best td{font-weight:600;background:var(--best)}
dl{display:grid;grid-template-columns:fit-content(14rem) minmax(0,1fr);gap:.25rem 1.25rem;
font-size:.875rem;margin:.75rem 0}
dt{color:var(--quiet);overflow-wrap:anywhere}dd{margin:0;overflow-wrap:anywhere}
@media (max-width:60rem){svg .wide,li.wide{display:none}}
@media (max-width:40rem){main{padding:1.5rem .9rem 3rem}.chart{padding:.7rem .6rem .4rem;
column-gap:.5rem}.names span,.figures span{font-size:11px}h1{font-size:1.4rem}
td.bar{min-width:4.5rem}td.words{min-width:11rem}.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tile b{font-size:1.2rem}
dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:.4rem}}
@media print{:root{--page:#fff;color-scheme:light}html{font-size:12px}body{font-size:12px}
main{max-width:none;padding:0}section{margin-top:1.5rem}.chart,.tile,tr{break-inside:avoid}
h2,h2+p{break-after:avoid}.scroll{max-height:none;overflow:visible}
th,th:first-child,td:first-child{position:static}
th,td{padding:.2rem .45rem}td.words,td.bar{min-width:8rem}td.bar{width:auto}
td.name{white-space:normal;min-width:8rem;overflow-wrap:anywhere}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";

}  // namespace

const char* FillClass(MemoryItemKind kind) {
  switch (kind) {
    case MemoryItemKind::kParameters:
      return "f00";
    case MemoryItemKind::kGradients:
      return "f61";
    case MemoryItemKind::kOptimizerStates:
      return "f22";
    case MemoryItemKind::kActivations:
      return "f10";
    case MemoryItemKind::kCheckpoints:
      return "f41";
    case MemoryItemKind::kTransient:
      return "f53";
    case MemoryItemKind::kContext:
      return "f70";
    case MemoryItemKind::kMasterParameters:
      return "f31";
    case MemoryItemKind::kGatheredParameters:
      return "f02";
    case MemoryItemKind::kLogits:
      return "f12";
    case MemoryItemKind::kCommunicators:
      return "f72";
    case MemoryItemKind::kWorkspace:
      return "f73";
    case MemoryItemKind::kFragmentation:
      return "f63";
  }
  return "";
}

const char* FillClass(TimeItemKind kind) {
  switch (kind) {
    case TimeItemKind::kForwardCompute:
      return "f60";
    case TimeItemKind::kBackwardCompute:
      return "f50";
    case TimeItemKind::kRecompute:
      return "f41";
    case TimeItemKind::kTensorParallel:
      return "f22";
    case TimeItemKind::kShardedDataParallel:
      return "f33";
    case TimeItemKind::kResharding:
      return "f71";
    case TimeItemKind::kLaunch:
      return "f70";
    case TimeItemKind::kContextParallel:
      return "f12";
    case TimeItemKind::kExpertParallel:
      return "f03";
  }
  return "";
}

std::string StrategyFillClass(int index) {
  return absl::StrCat("f", index % kColourCount, (index + index / kColourCount) % kTextureCount);
}

std::string StyleSheet() {
  std::string sheet = absl::StrCat(kColours, kLayout, kCharts);
  for (int colour = 0; colour < kColourCount; ++colour) {
    for (int texture = 0; texture < kTextureCount; ++texture) {
      const std::string name = absl::StrCat(colour, texture);
      absl::StrAppend(
          &sheet, ".f", name, "{fill:",
          texture == 0 ? absl::StrCat("var(--c", colour, ")") : absl::StrCat("url(#p", name, ")"),
          "}");
    }
    absl::StrAppend(&sheet, ".c", colour, "{fill:var(--c", colour, ")}\n");
  }
  // Printed, a texture is a picture for every bar, megabytes where there are many.
  sheet += "@media print{";
  for (int colour = 0; colour < kColourCount; ++colour) {
    for (int texture = 1; texture < kTextureCount; ++texture) {
      absl::StrAppend(&sheet, ".low .f", colour, texture, "{fill:var(--c", colour, ")}");
    }
  }
  return absl::StrCat(sheet, "}", kTables);
}

std::string PageHead(absl::string_view title, absl::string_view more_style) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<meta name=\"color-scheme\" content=\"light dark\"/>"
      "<link rel=\"icon\" href=\"data:,\"/><title>",
      Escape(title), "</title><style>", StyleSheet(), more_style, "</style></head>\n");
}

std::string Textures() {
  std::string html = "<svg class=\"textures\" aria-hidden=\"true\"><defs>";
  for (int colour = 0; colour < kColourCount; ++colour) {
    for (int texture = 1; texture < kTextureCount; ++texture) {
      absl::StrAppend(&html, "<pattern id=\"p", colour, texture,
                      "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect class=\"c",
                      colour, "\" width=\"8\" height=\"8\"/><path class=\"grain\" d=\"",
                      kTextures[texture], "\"/></pattern>");
    }
  }
  return html + "</defs></svg>";
}

}  // namespace parplan::report
