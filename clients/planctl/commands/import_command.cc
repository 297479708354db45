// `planctl import galvatron|hf|megatron|torchtitan|deepspeed|accelerate`: files of others as files
// of ours.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_profile.h"
#include "clients/import/hugging_face.h"
#include "clients/import/megatron_run.h"
#include "clients/import/torchtitan_plan.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/import_flags.h"
#include "clients/planctl/commands/import_plan_commands.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_view.h"
#include "proto/wire/model_wire.h"

namespace parplan::planctl {
namespace {

absl::Status ReadOptional(const std::string& path, std::optional<NamedText>& target) {
  if (path.empty()) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(target, ReadNamed(path));
  return absl::OkStatus();
}

struct GalvatronCommandFlags {
  std::vector<std::string> times;
  std::vector<std::string> memory;
  std::string model_config;
  std::string all_reduce;
  std::string send_receive;
  std::string overlap;
  std::string tables;
  GalvatronFlags import;
  std::string profile_path;
  std::string model_path;
  std::string cluster_path;
};

absl::Status RunGalvatron(const Session& session, const GalvatronCommandFlags& flags) {
  if (flags.profile_path.empty() && flags.model_path.empty() && flags.cluster_path.empty()) {
    return FieldError(Reason::kSpecInvalid, "--profile-out",
                      "nothing to write; give at least one of --profile-out, --model-out and "
                      "--cluster-out");
  }
  GalvatronFiles files;
  for (const std::string& path : flags.times) {
    PARPLAN_ASSIGN_OR_RETURN(NamedText text, ReadNamed(path));
    files.times.push_back(std::move(text));
  }
  for (const std::string& path : flags.memory) {
    PARPLAN_ASSIGN_OR_RETURN(NamedText text, ReadNamed(path));
    files.memory.push_back(std::move(text));
  }
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.model_config, files.model_config));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.all_reduce, files.hardware.all_reduce));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.send_receive, files.hardware.send_receive));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.overlap, files.hardware.overlap));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.tables, files.hardware.tables));
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronImport made, ImportGalvatron(files, flags.import));
  if (!flags.model_path.empty() && !made.model.has_value()) {
    return FieldError(Reason::kSpecInvalid, "--model-out",
                      "the files given describe no model; give --computation, --memory or "
                      "--model-config too");
  }
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("profile", flags.profile_path, made.profile));
  if (made.model.has_value()) {
    PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_path, *made.model));
  }
  PARPLAN_RETURN_IF_ERROR(written.Add("cluster", flags.cluster_path, made.topology));
  return ReportWritten(session, written, made.notes);
}

struct HuggingFaceCommandFlags {
  std::string config_path;
  std::string opaque_path;
  ModelFlags model;
  std::string model_path;
};

absl::Status RunHuggingFace(const Session& session, const HuggingFaceCommandFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const NamedText config, ReadNamed(flags.config_path));
  GivenOpaqueLayers opaque;
  if (!flags.opaque_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const NamedText file, ReadNamed(flags.opaque_path));
    PARPLAN_ASSIGN_OR_RETURN(opaque, ReadOpaqueLayers(file));
  }
  PARPLAN_ASSIGN_OR_RETURN(const HuggingFaceImport made,
                           ImportHuggingFace(config, flags.model, opaque));
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_path, made.model));
  return ReportWritten(session, written, made.notes);
}

struct MegatronCommandFlags {
  std::string file;
  std::string model_path;
  MegatronRunOptions import;
  std::string model_output;
  std::string plan_output;
};

absl::Status RunMegatron(const Session& session, const MegatronCommandFlags& flags) {
  if (flags.model_output.empty() && flags.plan_output.empty()) {
    return FieldError(Reason::kSpecInvalid, "--out",
                      "nothing to write; give at least one of --out and --model-out");
  }
  PARPLAN_ASSIGN_OR_RETURN(const NamedText file, ReadNamed(flags.file));
  MegatronRunOptions options = flags.import;
  if (!flags.model_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(options.model, ReadModel(flags.model_path));
  }
  PARPLAN_ASSIGN_OR_RETURN(const MegatronRunImport made, ImportMegatronRun(file, options));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(made.model));
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_output, made.model));
  PARPLAN_RETURN_IF_ERROR(
      written.Add("plan", flags.plan_output, GivenPayload(made.plan, model, made.runtime_id)));
  return ReportWritten(session, written, made.notes);
}

struct TorchtitanCommandFlags {
  std::string config_path;
  std::string passes_path;
  std::string function;
  std::string model_path;
  int device_count = 0;
  ModelFlags model;
  std::string model_output;
  std::string plan_output;
};

absl::Status RunTorchtitan(const Session& session, const TorchtitanCommandFlags& flags) {
  if (flags.model_output.empty() && flags.plan_output.empty()) {
    return FieldError(Reason::kSpecInvalid, "--out",
                      "nothing to write; give at least one of --out and --model-out");
  }
  PARPLAN_ASSIGN_OR_RETURN(const NamedText config, ReadNamed(flags.config_path));
  v1::ModelSpec message;
  std::vector<std::string> notes;
  if (flags.model_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(TorchtitanModelImport made,
                             ImportTorchtitanModel(config, flags.function, flags.model));
    message = std::move(made.model);
    notes = std::move(made.notes);
  } else {
    PARPLAN_ASSIGN_OR_RETURN(message, ReadModel(flags.model_path));
  }
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(message));
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_output, message));
  if (!flags.plan_output.empty()) {
    std::optional<NamedText> passes;
    PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.passes_path, passes));
    PARPLAN_ASSIGN_OR_RETURN(
        const TorchtitanPlanImport made,
        ImportTorchtitanPlan(config, passes, flags.function, model, flags.device_count));
    notes.insert(notes.end(), made.notes.begin(), made.notes.end());
    PARPLAN_RETURN_IF_ERROR(
        written.Add("plan", flags.plan_output, GivenPayload(made.plan, model, kTorchtitanRuntime)));
  }
  return ReportWritten(session, written, notes);
}

void AddTorchtitanImport(Command import, const Session& session, Action& action) {
  auto flags = std::make_shared<TorchtitanCommandFlags>();
  Command command = import.AddCommand(
      "torchtitan", "A configuration of torchtitan as a plan without a prediction, and its model");
  command.Footer(
      "Reads TOML, or Python source with a Trainer.Config, as far as its values are literal; runs "
      "nothing. Sections and classes that are not known are named once; unknown settings of "
      "parallelism are refused.\nExample:\n"
      "  planctl import torchtitan run.toml --model llama.model.json --devices 64 --out "
      "today.plan.json\n"
      "  planctl evaluate today.plan.json --model llama.model.json --cluster c.cluster.json");
  command.AddOption("file", flags->config_path, "TOML file, or Python source").Required();
  command.AddOption("--schedule", flags->passes_path, "Table of passes (CSV) that the run loads");
  command.AddOption("--function", flags->function,
                    "Function of the Python source that makes the configuration");
  command.AddOption("--devices", flags->device_count, "Devices of the job")
      .Check(shell::Positive());
  command.AddOption("--model", flags->model_path,
                    "Model file of the run [the model whose sizes the file names]");
  command.AddOption("--model-out", flags->model_output, "Model file to write");
  command.AddOption("--out", flags->plan_output, "Plan file to write");
  AddModelFlags(command, flags->model);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return RunTorchtitan(session, *flags); };
  });
}

}  // namespace

void AddImportCommand(Command app, const Session& session, Action& action) {
  Command import = app.AddCommand("import", "Turn files of others into files of ours");
  import.RequireCommand();
  import.Footer(
      "`planctl import galvatron --help` lists the files it takes.\nExample:\n"
      "  planctl import hf config.json --out llama.model.json");

  auto galvatron = std::make_shared<GalvatronCommandFlags>();
  Command command = import.AddCommand(
      "galvatron", "Galvatron's computation, memory and hardware JSON, all releases");
  command.Footer(
      "Example:\n  planctl import galvatron --computation computation_profiling_bf16_x.json "
      "--memory memory_profiling_bf16_x.json --allreduce allreduce_bandwidth_1nodes_8gpus_per_node"
      ".json --p2p p2p_bandwidth_1nodes_8gpus_per_node.json --overlap overlap_coefficient.json "
      "--profile-out x.profile.json --model-out x.model.json --cluster-out x.cluster.json");
  command.AddOption("--computation", galvatron->times, "Computation (forward) times");
  command.AddOption("--memory", galvatron->memory, "Memory");
  command.AddOption("--model-config", galvatron->model_config,
                    "meta_configs/*.json, or the config.json of the model");
  command.AddOption("--allreduce", galvatron->all_reduce, "All-reduce bandwidths");
  command.AddOption("--p2p", galvatron->send_receive, "Point-to-point bandwidths");
  command.AddOption("--overlap", galvatron->overlap, "Overlap coefficient");
  command.AddOption("--sp-time", galvatron->tables, "Collective times by message size");
  command.AddOption("--node-count", galvatron->import.nodes.node_count, "Nodes of the files");
  command.AddOption("--devices-per-node", galvatron->import.nodes.devices_per_node,
                    "Devices per node of the files");
  command.AddOption("--device-kind", galvatron->import.device_kind, "Model of the device");
  command.AddOption("--device-memory-bytes", galvatron->import.device_memory_bytes,
                    "Memory of a device");
  command.AddOption("--cluster", galvatron->import.cluster, "Name of the cluster");
  command.AddOption("--source", galvatron->import.source,
                    "Where the files come from: publication, version, licence");
  command.AddOption("--profile-out", galvatron->profile_path, "Profile file to write");
  command.AddOption("--model-out", galvatron->model_path, "Model file to write");
  command.AddOption("--cluster-out", galvatron->cluster_path, "Cluster file to write");
  AddModelFlags(command, galvatron->import.model);
  command.OnChosen([&session, &action, galvatron] {
    action = [&session, galvatron] { return RunGalvatron(session, *galvatron); };
  });

  auto hugging_face = std::make_shared<HuggingFaceCommandFlags>();
  command = import.AddCommand("hf", "A Hugging Face config.json as a model file");
  command.Footer(
      "Example:\n  planctl import hf config.json --sequence-length 4096 --out "
      "llama.model.json");
  command.AddOption("config", hugging_face->config_path, "config.json").Required();
  command.AddOption("--out", hugging_face->model_path, "Model file to write").Required();
  command.AddOption("--opaque", hugging_face->opaque_path,
                    "Sizes of kinds of layers that are not known (docs/import.md)");
  AddModelFlags(command, hugging_face->model);
  command.OnChosen([&session, &action, hugging_face] {
    action = [&session, hugging_face] { return RunHuggingFace(session, *hugging_face); };
  });

  auto megatron = std::make_shared<MegatronCommandFlags>();
  command = import.AddCommand(
      "megatron", "A run of Megatron-LM as a model file and a plan without a prediction");
  command.Footer(
      "Reads arguments, a shell script that starts a Python program, or YAML of Megatron-LM's "
      "tests or Megatron-Bridge; runs nothing. Arguments that change neither shape nor parallelism "
      "are named once; others that are not known are refused.\nExample:\n"
      "  planctl import megatron pretrain.sh --devices 64 --model-out m.model.json --out "
      "today.plan.json\n"
      "  planctl evaluate today.plan.json --model m.model.json --cluster c.cluster.json");
  command.AddOption("file", megatron->file, "Arguments, launch script or YAML").Required();
  command
      .AddOption("--devices", megatron->import.device_count,
                 "Devices of the job [what the script gives torchrun]")
      .Check(shell::Positive());
  command.AddOption("--model", megatron->model_path,
                    "Model file of the run [the model of the arguments]");
  command.AddOption("--model-out", megatron->model_output, "Model file to write");
  command.AddOption("--out", megatron->plan_output, "Plan file to write");
  AddModelFlags(command, megatron->import.flags);
  command.OnChosen([&session, &action, megatron] {
    action = [&session, megatron] { return RunMegatron(session, *megatron); };
  });

  AddTorchtitanImport(import, session, action);
  AddImportPlanCommands(import, session, action);
}

}  // namespace parplan::planctl
