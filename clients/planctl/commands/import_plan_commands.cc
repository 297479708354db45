#include "clients/planctl/commands/import_plan_commands.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "clients/import/accelerate_plan.h"
#include "clients/import/deepspeed_plan.h"
#include "clients/import/torch_plan.h"
#include "clients/planctl/commands/import_flags.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_view.h"
#include "planner/model/search_space.h"
#include "proto/wire/model_wire.h"

namespace parplan::planctl {
namespace {

// The files of a command, and what the script of the run says.
struct ImportedPlanFlags {
  std::string file;
  std::string model_path;
  std::string plan_path;
  int device_count = 0;
  int pipeline_stage_count = 0;
  int micro_batch_size = 0;
  int accumulation_step_count = 0;
  // Empty if the file decides.
  std::string recompute;
  // The file of DeepSpeed that settings of Accelerate name; empty if they name none.
  std::string deepspeed_path;
  // The table of passes; empty for plans of one stage.
  std::string passes_path;

  std::optional<bool> recomputes() const {
    return recompute.empty() ? std::nullopt : std::optional(recompute == "full");
  }
};

// Adds the flags that all programs have.
void AddPlanFlags(Command command, ImportedPlanFlags& flags, const char* file) {
  command.AddOption("file", flags.file, file).Required();
  command.AddOption("--model", flags.model_path, "Model file of the run").Required();
  command.AddOption("--devices", flags.device_count, "Devices of the job")
      .Check(shell::Positive())
      .Required();
  command.AddOption("--out", flags.plan_path, "Plan file to write").Required();
  command
      .AddOption("--recompute", flags.recompute,
                 "Whether the script recomputes decoder layers: full or none [what the file says]")
      .Check(shell::OneOf({"full", "none"}));
}

// Writes the plan for the runtime.
absl::Status WritePlan(const Session& session, const ImportedPlanFlags& flags, const Plan& plan,
                       const ModelSpec& model, absl::string_view runtime_id,
                       const std::vector<std::string>& notes) {
  Written written;
  PARPLAN_RETURN_IF_ERROR(
      written.Add("plan", flags.plan_path, GivenPayload(plan, model, runtime_id)));
  return ReportWritten(session, written, notes);
}

absl::StatusOr<ModelSpec> ModelOf(const ImportedPlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::ModelSpec message, ReadModel(flags.model_path));
  return ModelFromProto(message);
}

absl::Status RunDeepSpeed(const Session& session, const ImportedPlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const NamedText file, ReadNamed(flags.file));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelOf(flags));
  const DeepSpeedPlanOptions options{.device_count = flags.device_count,
                                     .pipeline_stage_count = flags.pipeline_stage_count,
                                     .micro_batch_size = flags.micro_batch_size,
                                     .accumulation_step_count = flags.accumulation_step_count,
                                     .recompute = flags.recomputes()};
  PARPLAN_ASSIGN_OR_RETURN(const DeepSpeedPlanImport made,
                           ImportDeepSpeedPlan(file, model, options));
  return WritePlan(session, flags, made.plan, model, LimitsOf(Target::kDeepSpeed).runtime_id,
                   made.notes);
}

absl::Status RunAccelerate(const Session& session, const ImportedPlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const NamedText file, ReadNamed(flags.file));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelOf(flags));
  AcceleratePlanOptions options{.device_count = flags.device_count,
                                .micro_batch_size = flags.micro_batch_size,
                                .accumulation_step_count = flags.accumulation_step_count,
                                .recompute = flags.recomputes()};
  if (!flags.deepspeed_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(options.deepspeed_config, ReadNamed(flags.deepspeed_path));
  }
  PARPLAN_ASSIGN_OR_RETURN(const AcceleratePlanImport made,
                           ImportAcceleratePlan(file, model, options));
  const Target target = made.is_of_deepspeed ? Target::kDeepSpeed : Target::kAccelerate;
  return WritePlan(session, flags, made.plan, model, LimitsOf(target).runtime_id, made.notes);
}

absl::Status RunTorch(const Session& session, const ImportedPlanFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const NamedText file, ReadNamed(flags.file));
  std::optional<NamedText> passes;
  if (!flags.passes_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(passes, ReadNamed(flags.passes_path));
  }
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelOf(flags));
  PARPLAN_ASSIGN_OR_RETURN(const TorchPlanImport made, ImportTorchPlan(file, passes, model));
  return WritePlan(session, flags, made.plan, model, RuntimeOfTorchPlan(made.traits),
                   /*notes=*/{});
}

void AddTorchImport(Command import, const Session& session, Action& action) {
  auto flags = std::make_shared<ImportedPlanFlags>();
  Command command = import.AddCommand(
      "torch", "Files of `export --to fsdp2|torch-pipelining` as a plan without a prediction");
  command.Footer(
      "Refuses a file whose members contradict each other, by the place of the first.\n"
      "Example:\n"
      "  planctl import torch stages.json --schedule schedule.csv --model llama2-7b.model.json "
      "--out today.plan.json");
  command.AddOption("file", flags->file, "fsdp2.json or stages.json").Required();
  command.AddOption("--schedule", flags->passes_path,
                    "schedule.csv, if the plan has several stages");
  command.AddOption("--model", flags->model_path, "Model file of the run").Required();
  command.AddOption("--out", flags->plan_path, "Plan file to write").Required();
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return RunTorch(session, *flags); };
  });
}

}  // namespace

void AddImportPlanCommands(Command import, const Session& session, Action& action) {
  auto deepspeed = std::make_shared<ImportedPlanFlags>();
  Command command = import.AddCommand(
      "deepspeed", "A ds_config.json of DeepSpeed as a plan without a prediction");
  command.Footer(
      "Keys that change neither shape nor parallelism are named once; others that are not known "
      "are refused.\nExample:\n"
      "  planctl import deepspeed ds_config.json --model llama2-7b.model.json --devices 8 --out "
      "today.plan.json\n"
      "  planctl evaluate today.plan.json --model llama2-7b.model.json --cluster c.cluster.json");
  AddPlanFlags(command, *deepspeed, "ds_config.json");
  command
      .AddOption("--pipeline-stages", deepspeed->pipeline_stage_count,
                 "Stages of the script's PipelineModule [what the file says, or 1]")
      .Check(shell::Positive());
  command
      .AddOption("--micro-batch-size", deepspeed->micro_batch_size,
                 "Samples of a micro-batch on one device, where the file says auto")
      .Check(shell::Positive());
  command
      .AddOption("--accumulation-steps", deepspeed->accumulation_step_count,
                 "Micro-batches of a step, where the file says auto")
      .Check(shell::Positive());
  command.OnChosen([&session, &action, deepspeed] {
    action = [&session, deepspeed] { return RunDeepSpeed(session, *deepspeed); };
  });

  auto accelerate = std::make_shared<ImportedPlanFlags>();
  command = import.AddCommand("accelerate",
                              "Variables or the YAML of Accelerate as a plan without a prediction");
  command.Footer(
      "Reads lines NAME=value, or what `accelerate config` writes. Settings that change neither "
      "shape nor parallelism are named once; others that are not known are refused.\nExample:\n"
      "  planctl import accelerate default_config.yaml --micro-batch-size 2 --model "
      "llama2-7b.model.json --devices 8 --out today.plan.json");
  AddPlanFlags(command, *accelerate, "Variables or YAML");
  command
      .AddOption("--micro-batch-size", accelerate->micro_batch_size,
                 "Samples in a batch of the data loader [what the file says]")
      .Check(shell::Positive());
  command
      .AddOption("--accumulation-steps", accelerate->accumulation_step_count,
                 "Batches of a step [what the file says, or 1]")
      .Check(shell::Positive());
  command.AddOption("--deepspeed-config", accelerate->deepspeed_path,
                    "The ds_config.json that deepspeed_config_file of the settings names");
  command.OnChosen([&session, &action, accelerate] {
    action = [&session, accelerate] { return RunAccelerate(session, *accelerate); };
  });

  AddTorchImport(import, session, action);
}

}  // namespace parplan::planctl
