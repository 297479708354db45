// Reads settings of Accelerate 1.15 as plans: environment variables, or the YAML of `accelerate
// config`. `planctl import accelerate` calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_ACCELERATE_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_ACCELERATE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Facts that the script has and the file need not. One that differs from the file's is an error.
struct AcceleratePlanOptions {
  // Ranks of the job: 1 to kMaxImportCount (named_text.h). Needed also if the file has them.
  int device_count = 0;
  // Samples of one micro-batch on one replica. 0: PARPLAN_MICRO_BATCH_SIZE_PER_RANK of the file,
  // which is then needed.
  int micro_batch_size = 0;
  // Micro-batches of a step. 0: ACCELERATE_GRADIENT_ACCUMULATION_STEPS or
  // PARPLAN_GRADIENT_ACCUMULATION_STEPS of the file, or one.
  int accumulation_step_count = 0;
  // Whether all decoder layers are recomputed. Absent: as FSDP_ACTIVATION_CHECKPOINTING or
  // PARPLAN_RECOMPUTE of the file says, or not.
  std::optional<bool> recompute;
  // The configuration of DeepSpeed that the settings name by its path. Needed exactly then.
  std::optional<NamedText> deepspeed_config;
};

// The plan that was read, and what the reader assumed.
struct AcceleratePlanImport {
  Plan plan;
  // DeepSpeed trains; else PyTorch does.
  bool is_of_deepspeed = false;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the plan that Accelerate runs with the settings in `file`: lines `NAME=value`, for example
// an `accelerate.env` of `ExportAcceleratePlan` (exports/accelerate_plan_export.h), which gives the
// exported plan again; or lines `key: value` of a configuration, which the launcher turns into such
// variables. Without sizes of parallelism all devices are data-parallel: sharded with FSDP, else
// replicas. Without a precision the settings mean fp32. Settings that change neither shape nor
// parallelism are ignored and noted. Every plan that is read can be exported again: those of
// `distributed_type: DEEPSPEED` (accelerate_deepspeed.h) to DeepSpeed.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) for a model that RequireDecoderModel
// (exports/uniform_plan.h) refuses; with the file for a number of devices that is missing, an
// option below 0 or above kMaxImportCount, settings that are unknown (all in one message), and what
// Accelerate cannot run, with the reason of `ExportAcceleratePlan`; and with file and variable, or
// line, for the errors of AccelerateSettings (accelerate_settings.h); for training on processors or
// by Megatron-LM; for another precision than `model` has; for
// contradictions (sizes whose product is not the devices, ...); and for what plans do not describe
// (parameters or checkpoints outside the devices, the whole model as one unit, keys and values
// gathered while their gradients go round). Of several faults one is returned; settings that are
// unknown come after those of the settings that are known.
absl::StatusOr<AcceleratePlanImport> ImportAcceleratePlan(const NamedText& file,
                                                          const ModelSpec& model,
                                                          const AcceleratePlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ACCELERATE_PLAN_H_
