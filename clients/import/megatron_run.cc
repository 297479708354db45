#include "clients/import/megatron_run.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/argument_list.h"
#include "clients/import/launch_script.h"
#include "clients/import/megatron_graphs.h"
#include "clients/import/megatron_layers.h"
#include "clients/import/megatron_model.h"
#include "clients/import/megatron_plan.h"
#include "clients/import/megatron_rules.h"
#include "clients/import/megatron_states.h"
#include "clients/import/megatron_yaml.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

// Returns whether the first word behind blanks and comments is an argument.
bool BeginsWithArgument(absl::string_view text) {
  while (true) {
    text = absl::StripLeadingAsciiWhitespace(text);
    if (!absl::StartsWith(text, "#")) return absl::StartsWith(text, "--");
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos) return false;
    text.remove_prefix(end);
  }
}

// Refuses recipes of Megatron-Bridge, which are Python functions, and scripts that start one.
absl::Status CheckNoRecipe(const NamedText& file) {
  // A launcher of its repository, and the package.
  for (const char* const sign : {"run_recipe.py", "megatron.bridge"}) {
    if (!absl::StrContains(file.text, sign)) continue;
    return ImportError(Reason::kSpecInvalid, file.name, sign,
                       "is a recipe of Megatron-Bridge, whose Python is not run here; let the "
                       "script call to_yaml(\"run.yaml\") of the ConfigContainer that it trains "
                       "by, with all overrides, and import run.yaml with --devices");
  }
  return absl::OkStatus();
}

struct MegatronArgumentsOfFile {
  ArgumentList arguments;
  std::optional<int> device_count;
  std::vector<std::string> notes;
};

absl::StatusOr<MegatronArgumentsOfFile> ReadMegatronFile(const NamedText& file) {
  MegatronArgumentsOfFile result;
  if (absl::EndsWith(file.name, ".yaml") || absl::EndsWith(file.name, ".yml")) {
    PARPLAN_ASSIGN_OR_RETURN(const MegatronYaml yaml, ReadMegatronYaml(file));
    result.notes = yaml.notes;
    PARPLAN_ASSIGN_OR_RETURN(result.arguments,
                             ArgumentList::FromWords(file.name, yaml.arguments, MegatronRules()));
    return result;
  }
  if (BeginsWithArgument(file.text)) {
    PARPLAN_ASSIGN_OR_RETURN(result.arguments, ArgumentList::Read(file, MegatronRules()));
    return result;
  }
  absl::StatusOr<LaunchCommand> command = ReadLaunchScript(file, "--micro-batch-size");
  if (!command.ok()) {
    PARPLAN_RETURN_IF_ERROR(CheckNoRecipe(file));
    return command.status();
  }
  for (const char* const part : {"bert", "t5", "vision", "vit", "retro", "mamba", "hybrid"}) {
    if (!absl::StrContains(command->program, part)) continue;
    return ImportError(Reason::kSpecInvalid, file.name, command->program,
                       "trains another model than decoder layers between an embedding and a head; "
                       "import that model from its config.json");
  }
  result.device_count = command->device_count;
  result.notes = std::move(command->notes);
  PARPLAN_ASSIGN_OR_RETURN(result.arguments,
                           ArgumentList::FromWords(file.name, command->arguments, MegatronRules()));
  return result;
}

}  // namespace

absl::StatusOr<MegatronRunImport> ImportMegatronRun(const NamedText& file,
                                                    const MegatronRunOptions& options) {
  const absl::string_view flag = GivenModelFlag(options.flags);
  if (options.model.has_value() && !flag.empty()) {
    return FieldError(Reason::kSpecInvalid, flag,
                      "changes the model that arguments describe, and a model file takes its "
                      "place; leave out --model or the flag");
  }
  PARPLAN_ASSIGN_OR_RETURN(const MegatronArgumentsOfFile read, ReadMegatronFile(file));
  MegatronRunImport import;
  import.notes = read.notes;
  int device_count = options.device_count;
  if (device_count == 0) device_count = read.device_count.value_or(0);
  if (device_count == 0) {
    return FieldError(Reason::kSpecInvalid, "--devices",
                      absl::StrCat("is needed: ", file.name,
                                   " does not give torchrun --nnodes "
                                   "and --nproc-per-node as numbers"));
  }
  if (read.device_count.value_or(device_count) != device_count) {
    import.notes.push_back(
        absl::StrCat(device_count, " devices taken; the script starts ", *read.device_count));
  }
  if (options.model.has_value()) {
    import.model = *options.model;
  } else {
    PARPLAN_ASSIGN_OR_RETURN(import.model,
                             MegatronModelSpecOf(read.arguments, options.flags, &import.notes));
  }
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(import.model));
  // Flags change the model that the arguments describe, which is then no contradiction.
  PARPLAN_ASSIGN_OR_RETURN(MegatronPlanImport plan,
                           MegatronPlanOf(read.arguments, model, device_count,
                                          options.model.has_value() ? MegatronModelCheck::kCompare
                                                                    : MegatronModelCheck::kTrust));
  PARPLAN_ASSIGN_OR_RETURN(const bool has_narrow, HasMegatronNarrowParameters(read.arguments));
  import.runtime_id = has_narrow ? kMegatronNarrowRuntime : kMegatronRuntime;
  import.plan = std::move(plan.plan);
  import.notes.insert(import.notes.end(), plan.notes.begin(), plan.notes.end());
  for (std::string& note : NotesOnMegatronLaunches(read.arguments, HasExperts(model))) {
    import.notes.push_back(std::move(note));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> of_states,
                           NotesOnMegatronStates(read.arguments));
  import.notes.insert(import.notes.end(), of_states.begin(), of_states.end());
  return import;
}

}  // namespace parplan
