// `planctl export --to deepspeed`: writes plans as configurations of DeepSpeed 0.19. The table of
// exporters.h has it as a row, by which server, sidecar and Slurm's tools call it too.

#ifndef PARPLAN_EXPORTS_DEEPSPEED_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_DEEPSPEED_PLAN_EXPORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns `ds_config.json`, which `ImportDeepSpeedPlan` (clients/import/deepspeed_plan.h) reads
// back as an equal plan; `deepspeed.args`, the arguments of a script that name it; `deepspeed.env`,
// the variables to set; and `README.txt` with what a configuration cannot say. docs/exports.md has
// the source of each key. `ExportFacts` are those of exported_files.h. REQUIRES: the layers of
// `plan` are those of `model`, whose precision quantises nothing and whose layers are not frozen;
// the last two are checked by `ExportPlan` (exporters.h) alone.
//
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and in most cases the layer, for plans
// that DeepSpeed cannot run exactly: all that `UniformPlanOf` (exports/uniform_plan.h) refuses;
// several virtual stages; in a pipeline, stages of unequally many decoder layers or split by
// anything but data parallelism, gradients or parameters sharded, and in bf16 replicas with nothing
// sharded; sequence parallelism; context parallelism by anything but Ulysses; tensor parallelism
// beside Ulysses; either of them in models with experts; heads or sequences that Ulysses cannot
// divide; experts over other ranks than the rest of their layer; recomputation of some layers, of
// attention, or of modules by name.
absl::StatusOr<std::vector<ExportedFile>> ExportDeepSpeedPlan(const Plan& plan,
                                                              const ModelSpec& model,
                                                              const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_DEEPSPEED_PLAN_EXPORT_H_
