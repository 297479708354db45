// `planctl export --to torchtitan`: writes plans as a Python module for torchtitan 0.3.0 of PyPI.
// The table of exporters.h has it as a row, by which server, sidecar and Slurm's tools call it too.

#ifndef PARPLAN_EXPORTS_TORCHTITAN_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_TORCHTITAN_PLAN_EXPORT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The release whose fields the module uses. Its successors name the sizes of batches otherwise.
inline constexpr char kTorchtitanRelease[] = "0.3.0";

// Returns INVALID_ARGUMENT (SPEC_INVALID) with layer and reason for a model of which torchtitan
// runs no plan: one that `RequireDecoderModel` (exports/uniform_plan.h) refuses, layers for further
// tokens, fp16.
absl::Status CheckTorchtitanModel(const ModelSpec& model);

// Checks that this release or, with rings, an earlier one runs a plan; `ExportTorchtitanPlan`,
// which refuses rings, and the importer (clients/import/torchtitan_plan.h) call it. REQUIRES,
// unchecked: `plan` is one of `UniformPlanOf` for `model`. INVALID_ARGUMENT (SPEC_INVALID) with
// field and reason, and in most cases the layer, for:
//   - recomputation of some layers only, of modules by name, or selectively unless `runtime`
//     repeats operators (`SelectiveRecompute::kOperators`);
//   - context parallelism by all-to-alls, or by a ring of groups that exchange heads;
//   - anything sharded over one rank, and nothing sharded beside context parallelism;
//   - without a pipeline, optimizer states sharded alone, and in several accumulation steps
//     gradients sharded alone or replicas with nothing sharded;
//   - with a pipeline, gradients or parameters sharded, and optimizer states sharded over more
//     virtual stages than its schedule keeps whole (3 a device);
//   - experts spread over ranks beside tensor parallelism or without sharding, or split over other
//     ranks than the rest of their layer;
//   - a tied head in a pipeline; degrees that do not divide heads or tokens;
//   - models that `CheckTorchtitanModel` refuses.
//
// docs/exports.md has the reasons.
absl::Status CheckTorchtitanPlan(const UniformPlan& plan, const ModelSpec& model,
                                 const RuntimeTraits& runtime);

// Returns `parplan_config.py`, whose function `plan` returns a `Trainer.Config`; with a pipeline
// `schedule.csv` (exports/pass_table.h); `torchtitan.env`; and `README.txt`.
// `ImportTorchtitanPlan` (clients/import/torchtitan_plan.h) reads the first two back as an equal
// plan. REQUIRES: the layers of `plan` are those of `model`, whose precision quantises nothing and
// whose layers are not frozen; the last two are checked by `ExportPlan` (exporters.h) alone.
//
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and in most cases the layer, for a
// `micro_batch_group_size`, for context parallelism by a ring, and for what `UniformPlanOf`, GPipe
// included, or `CheckTorchtitanPlan` refuses.
absl::StatusOr<std::vector<ExportedFile>> ExportTorchtitanPlan(const Plan& plan,
                                                               const ModelSpec& model,
                                                               const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_TORCHTITAN_PLAN_EXPORT_H_
