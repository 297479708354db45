// Reads settings of Accelerate by which DeepSpeed trains. `ImportAcceleratePlan`
// (accelerate_plan.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_ACCELERATE_DEEPSPEED_H_
#define PARPLAN_CLIENTS_IMPORT_ACCELERATE_DEEPSPEED_H_

#include "absl/status/statusor.h"
#include "clients/import/accelerate_plan.h"
#include "clients/import/accelerate_settings.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns whether the settings choose DeepSpeed: `distributed_type: DEEPSPEED` or
// `ACCELERATE_USE_DEEPSPEED=true`. Counts both as read.
bool UsesDeepSpeed(AccelerateSettings& settings);

// Reads the plan that DeepSpeed runs. The stage (2 if it is absent, with a note), the precision and
// the accumulation steps are those of the settings, as `DeepSpeedPlugin` of Accelerate 1.15 puts
// them into a configuration, and `PARALLELISM_CONFIG_SP_SIZE` is Ulysses; or all of them are those
// of `options.deepspeed_config` if the settings name such a file.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) with the file and the setting for states outside the
// devices, sizes of other axes than that of Ulysses, a file that is named and not given, or given
// and not named, settings beside a named file that Accelerate then forbids, and settings that are
// unknown; and the errors of ImportDeepSpeedPlan (deepspeed_plan.h).
absl::StatusOr<AcceleratePlanImport> ImportAccelerateDeepSpeed(
    const NamedText& file, AccelerateSettings settings, const ModelSpec& model,
    const AcceleratePlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ACCELERATE_DEEPSPEED_H_
