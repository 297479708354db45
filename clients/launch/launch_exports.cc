#include "clients/launch/launch_exports.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/verified_export.h"

namespace parplan {

absl::StatusOr<std::vector<const PlanExporter*>> ReadExportTargets(absl::string_view text,
                                                                   absl::string_view field) {
  std::vector<const PlanExporter*> exporters;
  if (text.empty()) return exporters;
  for (const absl::string_view target : absl::StrSplit(text, ',')) {
    PARPLAN_ASSIGN_OR_RETURN(const PlanExporter* const exporter, FindExporter(target, field));
    if (std::find(exporters.begin(), exporters.end(), exporter) != exporters.end()) {
      return FieldError(Reason::kSpecInvalid, field, absl::StrCat("names ", target, " twice"));
    }
    exporters.push_back(exporter);
  }
  return exporters;
}

absl::StatusOr<std::vector<ExportedFile>> ExportToFolders(
    const std::vector<const PlanExporter*>& exporters, const VerifiedPlan& verified,
    const ModelSpec& model) {
  std::vector<ExportedFile> all;
  for (const PlanExporter* const exporter : exporters) {
    PARPLAN_ASSIGN_OR_RETURN(std::vector<ExportedFile> files,
                             ExportVerifiedPlan(*exporter, verified, model));
    for (ExportedFile& file : files) {
      all.push_back({absl::StrCat(exporter->target, "/", file.name), std::move(file.text)});
    }
  }
  return all;
}

LaunchVariables ExportVariables(const std::vector<const PlanExporter*>& exporters,
                                absl::string_view folder) {
  LaunchVariables variables;
  for (const PlanExporter* const exporter : exporters) {
    const std::string name =
        absl::AsciiStrToUpper(absl::StrReplaceAll(exporter->target, {{"-", "_"}}));
    variables.emplace_back(absl::StrCat("PARPLAN_EXPORT_", name),
                           absl::StrCat(folder, "/", exporter->target));
  }
  return variables;
}

}  // namespace parplan
