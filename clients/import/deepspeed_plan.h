// Reads configurations of DeepSpeed 0.19 (`ds_config.json`) as plans. `planctl import deepspeed`
// calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_DEEPSPEED_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_DEEPSPEED_PLAN_H_

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
struct DeepSpeedPlanOptions {
  // Number of ranks of the job, from 1 to kMaxImportCount (named_text.h). Must be set, because no
  // file has it.
  int device_count = 0;
  // Number of stages of the model's PipelineModule. 0 stands for `pipeline.stages` of the file, or
  // for one stage if the key is absent or `auto`.
  int pipeline_stage_count = 0;
  // Samples of one micro-batch on one data-parallel replica. Replaces `auto` in
  // `train_micro_batch_size_per_gpu`, and `auto` in `train_batch_size` is then the product that
  // `ImportDeepSpeedPlan` names. 0 stands for the file's value.
  int micro_batch_size = 0;
  // Number of micro-batches of one step. Replaces `auto` in `gradient_accumulation_steps`. 0 stands
  // for the file's value.
  int accumulation_step_count = 0;
  // Whether all decoder layers are recomputed. If absent, the file decides: by
  // `pipeline.activation_checkpoint_interval` if there are several stages, and by
  // `activation_checkpointing.number_checkpoints` if there is one. A file without that key means
  // false, with a note.
  std::optional<bool> recompute;
};

// The plan that was read, and what the reader assumed.
struct DeepSpeedPlanImport {
  Plan plan;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the plan that DeepSpeed runs for `model` with the configuration in `file`. Importing a
// `ds_config.json` that ExportDeepSpeedPlan (exports/deepspeed_plan_export.h) wrote returns the
// plan that was exported, and every plan returned here can be exported. A pure function, which
// keeps no reference to its arguments.
//
//   - Batch: `train_batch_size` is `train_micro_batch_size_per_gpu` times
//     `gradient_accumulation_steps` times the data-parallel and the tensor-parallel degree, as
//     DeepSpeed counts. Two of these three keys determine the third. A file with one of the two
//     sizes alone means one micro-batch a step. `Plan::global_batch_size` does not contain the
//     tensor-parallel degree.
//   - Precision and optimizer are the model's, and the file is only compared with them. A file that
//     enables neither `bf16` nor `fp16` means fp32. `enabled: auto` and a missing `optimizer.type`
//     agree with every model.
//   - Known keys that change neither shape nor parallelism are ignored and listed in a note.
//
// Every error is INVALID_ARGUMENT (SPEC_INVALID). A call reports one fault; faults in known keys
// take precedence over unknown keys. Errors that name
//   - the model: RequireDecoderModel (exports/uniform_plan.h) refuses it;
//   - the file: an option is out of range, the text is no JSON object or has more than
//     kMaxImportBytes, the degrees do not divide the devices, keys are unknown (all of them in one
//     message), or DeepSpeed cannot run the plan (with the message of ExportDeepSpeedPlan);
//   - file and key: a value has the wrong type or is out of range; a number is `auto`, except
//     `pipeline.stages` and the numbers that `options` replace; precision, optimizer or numbers
//     contradict `model`, `options` or each other; or the key asks for something that plans do not
//     describe: offloading to host or disk, optimizer states of 16 bits, partitioned activation
//     checkpoints, quantized messages, sharding within some replicas (hpZ, MiCS), or a step of
//     another kind, such as `amp`, `compile`, `elasticity` or `curriculum_learning`.
absl::StatusOr<DeepSpeedPlanImport> ImportDeepSpeedPlan(const NamedText& file,
                                                        const ModelSpec& model,
                                                        const DeepSpeedPlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_DEEPSPEED_PLAN_H_
