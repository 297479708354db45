// `planctl export --to torch-pipelining|fsdp2`: plans for plain PyTorch, 2.6 to 2.15. The table of
// exporters.h has both as rows, by which server, sidecar and Slurm's tools call them too.

#ifndef PARPLAN_EXPORTS_TORCH_PLAN_EXPORT_H_
#define PARPLAN_EXPORTS_TORCH_PLAN_EXPORT_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The programs as errors name them.
inline constexpr char kTorchPipeliningProgram[] = "torch.distributed.pipelining";
inline constexpr char kFsdp2Program[] = "plain PyTorch";

// Checks that torch.distributed.pipelining runs a plan exactly. INVALID_ARGUMENT (SPEC_INVALID)
// with field and reason, and in most cases the layer, for what `CheckTorchPlan`
// (exports/torch_plan.h) refuses, for plans of one stage, and for neighbouring stages that hold
// activations differently, since the program sends each rank's activations to one rank of the next
// stage as they are.
absl::Status CheckTorchPipelining(const Plan& plan, const ModelSpec& model);

// Checks that plain PyTorch runs a plan exactly. INVALID_ARGUMENT (SPEC_INVALID) with field and
// reason, and in most cases the layer, for what `CheckTorchPlan` refuses; for experts spread over
// ranks and context parallelism by all-to-alls, neither of which PyTorch has by itself; and for
// latent attention that is tensor-parallel, whose matrices fsdp2.json does not name.
absl::Status CheckFsdp2Plan(const Plan& plan, const ModelSpec& model);

// Returns the stages of a pipeline for torch.distributed.pipelining: `stages.json`, the modules of
// each stage and the strategies inside; `schedule.csv`, the passes of every device
// (exports/pass_table.h); `torch-pipelining.env`; and `README.txt`. `ImportTorchPlan`
// (clients/import/torch_plan.h) reads the first two back as an equal plan. Errors are those of
// `CheckTorchPipelining`; precisions that quantise and frozen layers are refused by `ExportPlan`
// (exporters.h) alone, here and below.
absl::StatusOr<std::vector<ExportedFile>> ExportTorchPipelining(const Plan& plan,
                                                                const ModelSpec& model,
                                                                const ExportFacts& facts);

// Returns all that a runtime needs to apply the plan layer by layer with `fully_shard`,
// `parallelize_module`, `checkpoint` and `PipelineStage`: `fsdp2.json`, with a pipeline
// `schedule.csv`, `fsdp2.env` and `README.txt`. `ImportTorchPlan` reads the first two back as an
// equal plan. Errors are those of `CheckFsdp2Plan`.
absl::StatusOr<std::vector<ExportedFile>> ExportFsdp2Plan(const Plan& plan, const ModelSpec& model,
                                                          const ExportFacts& facts);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_TORCH_PLAN_EXPORT_H_
