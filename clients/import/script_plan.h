// Plans of programs that run the user's script, Accelerate and DeepSpeed: the file has a part of
// the plan, the script may have the rest, and both may say the same.

#ifndef PARPLAN_CLIENTS_IMPORT_SCRIPT_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_SCRIPT_PLAN_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"
#include "exports/exported_files.h"
#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns kFull if the script or the file says that all decoder layers are recomputed, else kNone.
// If they differ, calls `fail` with the broken rule, and the result means nothing. If neither says
// it, appends a note that none is recomputed.
RecomputeLevel AgreedRecomputation(std::optional<bool> of_script, std::optional<bool> of_file,
                                   const std::function<void(absl::string_view rule)>& fail,
                                   std::vector<std::string>* notes);

// An exporter of the table of exports/exporters.h.
using ScriptExporter = absl::StatusOr<std::vector<ExportedFile>> (*)(const Plan& plan,
                                                                     const ModelSpec& model,
                                                                     const ExportFacts& facts);

// Returns the plan with these facts (`PlanOf`). INVALID_ARGUMENT (SPEC_INVALID) with the file and
// the exporter's reason if the program cannot run it. REQUIRES: those of `PlanOf`.
absl::StatusOr<Plan> RunnablePlanOf(const NamedText& file, const UniformPlan& facts,
                                    const ModelSpec& model, ScriptExporter exporter);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SCRIPT_PLAN_H_
