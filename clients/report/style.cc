#include "clients/report/style.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "clients/report/embedded_files.h"
#include "clients/report/html.h"

namespace parplan::report {
namespace {

constexpr int kColourCount = 8;
constexpr int kTextureCount = 4;

// SVG paths drawn over the colour of a fill, in a tile of 8 by 8. The first texture is plain.
constexpr const char* kTextures[kTextureCount] = {
    "",
    "M-2 2 2 -2M0 8 8 0M6 10 10 6",
    "M1 2h2M5 6h2",
    "M-2 6 2 10M0 0 8 8M6 -2 10 2",
};

// The text of an embedded file. REQUIRES: there is one of this name.
absl::string_view FileNamed(absl::string_view name) {
  for (const EmbeddedFile& file : ReportFiles()) {
    if (file.name == name) return file.text;
  }
  PARPLAN_CHECK(false);  // clients/report/CMakeLists.txt embeds every name that is used here.
  return "";
}

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

std::string PageHead(absl::string_view title, absl::string_view more_style) {
  return absl::StrReplaceAll(FileNamed("page_head.html"),
                             {{"{{title}}", Escape(title)},
                              {"{{style}}", absl::StrCat(FileNamed("report.css"), more_style)}});
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
