// The files of other programs that a node makes from the plan it has verified. The sidecar and the
// tools for Slurm call them.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_EXPORTS_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_EXPORTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/launch/launch_variables.h"
#include "exports/exporters.h"
#include "planner/model/model_spec.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// Reads targets of exports/exporters.h, separated by commas without blanks; none from an empty
// text. The pointers are valid as long as the program, and not null. INVALID_ARGUMENT
// (SPEC_INVALID) naming `field` for a target that is empty, unknown or comes twice.
absl::StatusOr<std::vector<const PlanExporter*>> ReadExportTargets(absl::string_view text,
                                                                   absl::string_view field);

// Returns the files of all exporters, as names and texts; writes nothing. The name of each begins
// with the folder of its target: `megatron/megatron.args`. Returns the first error of
// ExportVerifiedPlan (exports/verified_export.h).
absl::StatusOr<std::vector<ExportedFile>> ExportToFolders(
    const std::vector<const PlanExporter*>& exporters, const VerifiedPlan& verified,
    const ModelSpec& model);

// Returns a variable PARPLAN_EXPORT_{TARGET} for each exporter with the path of its folder below
// `folder`; in its name letters are upper-case and `-` becomes `_`.
LaunchVariables ExportVariables(const std::vector<const PlanExporter*>& exporters,
                                absl::string_view folder);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_EXPORTS_H_
