// `planctl export --to accelerate`: writes plans as variables that Accelerate 1.15 reads. The table
// of exporters.h has it as a row, by which server, sidecar and Slurm's tools call it too.

#ifndef PARPLAN_EXPORTS_ACCELERATE_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_ACCELERATE_PLAN_EXPORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns `accelerate.env`, one `NAME=value` a line, which `ImportAcceleratePlan`
// (clients/import/accelerate_plan.h) reads back as an equal plan, and `README.txt` with the
// arguments that no variable has. docs/exports.md has the source of each variable. REQUIRES: the
// layers of `plan` are those of `model`, whose precision quantises nothing and whose layers are not
// frozen; the last two are checked by `ExportPlan` (exporters.h) alone.
//
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and in most cases the layer, for plans
// that Accelerate cannot run exactly: all that `UniformPlanOf` (exports/uniform_plan.h) refuses;
// several stages; optimizer states sharded alone; gradients sharded alone in several micro-batches;
// anything sharded over one replica; nothing sharded where tensor or context parallelism has
// replicas; sequence parallelism; context parallelism by anything but a plain ring; a sequence that
// context parallelism cannot split in two parts a rank; experts over several ranks, in layers split
// by tensor or context parallelism, or over other ranks than the rest of their layer; recomputation
// of some layers, of attention, or of modules by name.
absl::StatusOr<std::vector<ExportedFile>> ExportAcceleratePlan(const Plan& plan,
                                                               const ModelSpec& model,
                                                               const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_ACCELERATE_PLAN_EXPORT_H_
