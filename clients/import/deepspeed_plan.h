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

// Facts that the script has and the file need not. One that differs from the file's is an error.
struct DeepSpeedPlanOptions {
  // Ranks of the job: 1 to kMaxImportCount (named_text.h).
  int device_count = 0;
  // Stages of the model's PipelineModule. 0: `pipeline.stages` of the file, or one.
  int pipeline_stage_count = 0;
  // Samples of a micro-batch on one device and micro-batches of a step: what a trainer fills in
  // where the file says `auto`. 0: what the file says.
  int micro_batch_size = 0;
  int accumulation_step_count = 0;
  // Whether all decoder layers are recomputed. Absent: as the file says, or not; with several
  // stages in `pipeline.activation_checkpoint_interval`, with one in
  // `activation_checkpointing.number_checkpoints`.
  std::optional<bool> recompute;
};

// The plan that was read, and what the reader assumed.
struct DeepSpeedPlanImport {
  Plan plan;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the plan that DeepSpeed runs with the configuration in `file`, for example a
// `ds_config.json` of `ExportDeepSpeedPlan` (exports/deepspeed_plan_export.h), which gives the
// exported plan again. Of the three numbers of a batch any two give the third, as in DeepSpeed, and
// without `gradient_accumulation_steps` and one of the others a step has one micro-batch. DeepSpeed
// counts tensor-parallel ranks in `train_batch_size`; the plan's batch does not. Without `bf16` and
// `fp16` the precision is fp32; if one of them is enabled by `auto`, the precision is the model's.
// An optimizer without a `type` is the model's. Keys that change neither shape nor parallelism are
// ignored and noted. Every plan that is read can be exported again.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) for a model that RequireDecoderModel
// (exports/uniform_plan.h) refuses; with the file for one that is no JSON object or too large, a
// number of devices or stages out of range, keys that are unknown (all in one message), and what
// DeepSpeed cannot run, with the reason of `ExportDeepSpeedPlan`; and with file and key for values
// of a wrong type; for numbers that a trainer fills in (`auto`, but for `pipeline.stages` and what
// `options` have); for another precision or optimizer than `model` has; for contradictions (degrees
// that do not divide the devices, batches that are no product, ...); and for what plans do not
// describe: states or activations outside the devices, optimizer states of 16 bits, divided
// checkpoints, quantized messages, sharding over some replicas, changing sequence lengths. Of
// several faults one is returned; keys that are unknown come after those of the keys that are
// known.
absl::StatusOr<DeepSpeedPlanImport> ImportDeepSpeedPlan(const NamedText& file,
                                                        const ModelSpec& model,
                                                        const DeepSpeedPlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_DEEPSPEED_PLAN_H_
