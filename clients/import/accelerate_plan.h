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

// Values that the training script knows and the file may lack. A value that is set here and differs
// from the file's value is an error.
struct AcceleratePlanOptions {
  // Number of ranks of the job, from 1 to kMaxImportCount (named_text.h). Must be set, also if the
  // file has it.
  int device_count = 0;
  // Samples of one micro-batch on one data-parallel replica. 0 stands for
  // PARPLAN_MICRO_BATCH_SIZE_PER_RANK of the file, which must then be there.
  int micro_batch_size = 0;
  // Number of micro-batches of one step. 0 stands for ACCELERATE_GRADIENT_ACCUMULATION_STEPS or
  // PARPLAN_GRADIENT_ACCUMULATION_STEPS of the file, or for 1 if it has neither.
  int accumulation_step_count = 0;
  // Whether all decoder layers are recomputed. If absent, FSDP_ACTIVATION_CHECKPOINTING or
  // PARPLAN_RECOMPUTE of the file decides; a file with neither means false, with a note.
  std::optional<bool> recompute;
  // The configuration of DeepSpeed whose path the settings contain. Must be set if they contain
  // one, and absent otherwise.
  std::optional<NamedText> deepspeed_config;
};

// The plan that was read, and what the reader assumed.
struct AcceleratePlanImport {
  Plan plan;
  // Whether DeepSpeed trains; otherwise PyTorch does.
  bool is_of_deepspeed = false;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the plan that Accelerate runs for `model` with the settings in `file`: lines `NAME=value`
// of environment variables, or lines `key: value` of a configuration, which the launcher turns into
// such variables. Importing an `accelerate.env` that ExportAcceleratePlan
// (exports/accelerate_plan_export.h) wrote returns the plan that was exported. Every plan returned
// here can be exported: to Accelerate, or to DeepSpeed if DeepSpeed trains
// (accelerate_deepspeed.h). A pure function, which keeps no reference to its arguments.
//
//   - Degrees: if no size of parallelism is above 1, all devices are data-parallel: they shard with
//     FSDP, and are replicas without it.
//   - Precision is the model's, and the file is only compared with it. A file without
//     `mixed_precision` means fp32.
//   - Known settings that change neither shape nor parallelism are ignored and listed in a note.
//
// Every error is INVALID_ARGUMENT (SPEC_INVALID). A call reports one fault; faults in known
// settings take precedence over unknown settings. If DeepSpeed trains, the errors are those of
// accelerate_deepspeed.h. Otherwise, errors that name
//   - the model: RequireDecoderModel (exports/uniform_plan.h) refuses it;
//   - the file: an option is out of range, settings are unknown (all of them in one message), or
//     Accelerate cannot run the plan (with the message of ExportAcceleratePlan);
//   - file and variable, or line: the errors of AccelerateSettings (accelerate_settings.h); a
//     `deepspeed_config` although DeepSpeed does not train; precision or numbers contradict
//     `model`, `options` or each other (sizes whose product is not `device_count`); or the setting
//     asks for something that plans do not describe: training on processors or by Megatron-LM,
//     parameters or checkpoints outside the devices, FSDP that gathers the whole model as one
//     unit, or context parallelism by `allgather`.
absl::StatusOr<AcceleratePlanImport> ImportAcceleratePlan(const NamedText& file,
                                                          const ModelSpec& model,
                                                          const AcceleratePlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ACCELERATE_PLAN_H_
