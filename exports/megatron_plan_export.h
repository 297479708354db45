// `planctl export --to megatron`: writes plans as arguments of Megatron-LM, core 0.14 to 0.20. The
// table of exporters.h has it as a row, by which server, sidecar and Slurm's tools call it too.

#ifndef PARPLAN_EXPORTS_MEGATRON_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_MEGATRON_PLAN_EXPORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns INVALID_ARGUMENT (SPEC_INVALID) with layer and reason for a model of which Megatron-LM
// runs no plan: what `RequireDecoderModel` (exports/uniform_plan.h) or `MegatronModelOf`
// (exports/megatron_model.h) refuses.
absl::Status CheckMegatronModel(const ModelSpec& model);

// Returns `megatron.args`, which has one `--name` or `--name=value` a line, and after the name of
// an argument of several values each value on a line of its own. `ImportMegatronPlan`
// (clients/import/megatron_plan.h) reads it back as an equal plan. The other files are
// `megatron.env`, the variables of the environment to set, and `README.txt`. docs/exports.md has
// the source of each argument. `ExportFactsOf` (exporters.h) makes `facts`. REQUIRES, unchecked
// here: `plan` was made for `model`, whose precision quantises nothing and whose layers are not
// frozen. `ExportPlan` (exporters.h) refuses the other precisions and frozen layers.
//
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and in most cases the layer, for plans
// that Megatron-LM cannot run exactly: all that `UniformPlanOf` (exports/uniform_plan.h) refuses
// with `EmptyStages::kAllowed`; gradients or parameters sharded beside a pipeline, or beside tensor
// parallelism without sequence parallelism; experts beside tensor parallelism without sequence
// parallelism; virtual stages with micro-batches that the pipeline ranks do not divide, unless the
// plan has a `micro_batch_group_size`; a sequence that context parallelism cannot split in two
// parts a rank; and all that `MegatronModelOf` and `CheckFurtherTokens` (exports/megatron_model.h)
// refuse.
absl::StatusOr<std::vector<ExportedFile>> ExportMegatronPlan(const Plan& plan,
                                                             const ModelSpec& model,
                                                             const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_MEGATRON_PLAN_EXPORT_H_
