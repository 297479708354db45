// The programs for which plans are written: one table that planctl, server, sidecar and Slurm use.
// Each row calls the header of its target in this folder.

#ifndef PARPLAN_EXPORTS_EXPORTERS_H_
#define PARPLAN_EXPORTS_EXPORTERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/search_space.h"

namespace parplan {

// A row of the table: a program and the function that writes its files.
struct PlanExporter {
  // The name in flags and requests.
  absl::string_view target;
  // The program as errors and documents name it.
  absl::string_view program;
  // Whether the program reads the first file alone, so that `planctl export --out` may name a file
  // in place of a folder.
  bool reads_one_file;
  // Returns whether the program runs some plan of the model, as far as kinds and structures of its
  // layers and its precision are concerned. INVALID_ARGUMENT (SPEC_INVALID) with a field below
  // `model`, the layer, and what to do, with which `write` refuses every plan of that model.
  absl::Status (*check_model)(const ModelSpec& model);
  // Returns the files; `ExportPlan` calls it. It is pure. The files are at least one, the last is
  // README.txt, and their names differ. REQUIRES, which `ExportPlan` checks and `write` does not:
  // the layers of the plan are those of the model, whose precision quantises nothing and whose
  // layers are not frozen. INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and in most cases
  // the layer, for plans that the program cannot run exactly.
  absl::StatusOr<std::vector<ExportedFile>> (*write)(const Plan& plan, const ModelSpec& model,
                                                     const ExportFacts& facts);
};

// Returns all exporters in the order of the alphabet of their targets. They live as long as the
// program.
absl::Span<const PlanExporter> AllExporters();

// Returns the exporter of that target, a row of `AllExporters`. INVALID_ARGUMENT (SPEC_INVALID)
// that names `field` and lists the targets if there is none; names are compared with their case,
// and an empty one is unknown.
absl::StatusOr<const PlanExporter*> FindExporter(absl::string_view target, absl::string_view field);

// Returns the targets in the order of `AllExporters`.
std::vector<std::string> ExportTargets();

// Returns the `check_model` of the exporter with the name of `target`, so that no search is made
// for a model of which the program runs no plan; OK if there is none (`parplan`). Precisions that
// quantise and frozen layers pass: programs run these, and only their files are not written.
// REQUIRES: a target of `KnownTargets()`; aborts otherwise.
absl::Status CheckModelOfTarget(Target target, const ModelSpec& model);

// Returns what `ExportPlan` must know beside plan and model. An empty `runtime_id`, that of plans
// of before runtimes had names, stands for parplan's own. INVALID_ARGUMENT (PAYLOAD_MALFORMED) that
// names `runtime_id` for a runtime that this release does not know. `plan_name` may be empty.
absl::StatusOr<ExportFacts> ExportFactsOf(absl::string_view runtime_id,
                                          absl::string_view plan_name);

// Returns the files of `plan` for the program of `exporter`, a row of the table, in the order in
// which `PlanExporter::write` gives them. INVALID_ARGUMENT (SPEC_INVALID) with the field if the
// plan does not hold every layer of `model` once, in their order, if its precision quantises
// matrices (FP8, FP4), if it has frozen layers, or if the exporter refuses the plan.
absl::StatusOr<std::vector<ExportedFile>> ExportPlan(const PlanExporter& exporter, const Plan& plan,
                                                     const ModelSpec& model,
                                                     const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_EXPORTERS_H_
