// `planctl export --to galvatron`: writes plans as Galvatron's strategy files
// (`galvatron_config_*.json`). The table of exporters.h has it as a row, by which server, sidecar
// and Slurm's tools call it too.

#ifndef PARPLAN_EXPORTS_GALVATRON_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_GALVATRON_PLAN_EXPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns OK for a model of an embedding, transformer layers with the usual parts (`HasUsualParts`)
// and a head. INVALID_ARGUMENT (SPEC_INVALID) with the layer for all others, which the format can
// hold in no plan.
absl::Status CheckGalvatronModel(const ModelSpec& model);

// Returns `plan` as the JSON of a strategy file, which `ImportGalvatronPlan`
// (clients/import/galvatron_plan.h) reads back as an equal plan if it is given the same
// `sequence_parallel`. REQUIRES, unchecked: the layers of `plan` are those of `model`, in their
// order. Precision and frozen layers of the model are not read.
//
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason for models that `CheckGalvatronModel`
// refuses, for plans that do not hold every layer of the model once, and for those that the format
// can't hold: several stages per device, interleaved 1F1B, expert parallelism, experts over other
// ranks than the rest of their layer, stages of unequal ranks or without a transformer layer,
// embedding and head under different strategies or recomputed, a strided tensor-parallel group for
// them, recomputation of attention or of modules by name, optimizer state sharded alone, layers
// that shard gradients beside layers that shard nothing, anything sharded with a data-parallel
// degree of 1, sequence parallelism in some tensor-parallel layers only, context parallelism that
// is neither a plain ring nor Ulysses, tensor parallelism beside Ulysses in one layer.
absl::StatusOr<std::string> ExportGalvatronPlan(const Plan& plan, const ModelSpec& model);

// Returns the README.txt, which says how Galvatron is started with the file, by the name that
// `ExportPlan` (exporters.h) gives it: `galvatron_config.json`. REQUIRES, unchecked:
// `ExportGalvatronPlan` accepts `plan`.
std::string GalvatronReadme(const Plan& plan, const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_GALVATRON_PLAN_EXPORT_H_
