// `planctl export`: a plan as files of another program.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_view.h"
#include "exports/exporters.h"
#include "planner/model/search_space.h"
#include "proto/wire/digest.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"

namespace parplan::planctl {
namespace {

struct ExportFlags {
  std::string plan_path;
  std::string model_path;
  std::string target = "galvatron";
  std::string output_path = "-";
};

// Whether the path is that of a folder, or ends as one.
bool NamesFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) || (!path.empty() && path.back() == '/');
}

// Writes the files into the folder, which is made if only it is missing, and prints their paths.
absl::Status WriteFiles(const Session& session, const ExportFlags& flags,
                        const std::vector<ExportedFile>& files) {
  if (flags.output_path == "-") {
    return FieldError(
        Reason::kSpecInvalid, "--out",
        absl::StrCat("must name a folder, since --to ", flags.target, " writes several files"));
  }
  std::error_code error;
  // A path that ends in a slash names the folder before it.
  std::filesystem::path folder = flags.output_path;
  if (!folder.has_filename()) folder = folder.parent_path();
  std::filesystem::create_directory(folder, error);
  if (error) {
    return FieldError(
        Reason::kSpecInvalid, "--out",
        absl::StrCat("can't make the folder ", flags.output_path, ": ", error.message()));
  }
  nlohmann::ordered_json object = {{"target", flags.target}, {"folder", flags.output_path}};
  std::string lines;
  for (const ExportedFile& file : files) {
    const std::string path = (folder / file.name).string();
    PARPLAN_RETURN_IF_ERROR(WriteFile(path, file.text));
    object["files"].push_back(path);
    absl::StrAppend(&lines, path, "\n");
  }
  return Print(session, session.json ? object.dump(2) + "\n" : lines);
}

// Returns INVALID_ARGUMENT if the plan names another model, whose sizes the files would have. Plans
// that were imported name none.
absl::Status CheckModel(const v1::PlanPayload& payload, const ModelSpec& model) {
  if (payload.model_digest().empty() || payload.model_digest() == ModelDigest(model)) {
    return absl::OkStatus();
  }
  return FieldError(Reason::kSpecInvalid, "--model",
                    absl::StrCat("is not the one that the plan was made for, whose digest is ",
                                 payload.model_digest(), "; give that one"));
}

// Returns the refusal of a plan, with how to get one that the program runs if it can be planned
// for. A model that it cannot run at all stays as it was refused.
absl::Status WithWhatToPlan(const absl::Status& refusal, const std::string& target) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(refusal);
  if (!detail.has_value() || detail->reason != Reason::kSpecInvalid) return refusal;
  const auto field = detail->metadata.find("field");
  if (field == detail->metadata.end() || FindTarget(target) == nullptr ||
      !(absl::StrContains(refusal.message(), "can't run that") ||
        absl::StrContains(refusal.message(), "can't hold that")) ||
      absl::StartsWith(field->second, "model")) {
    return refusal;
  }
  return MakeError(refusal.code(), detail->reason,
                   absl::StrCat(refusal.message(), "; `planctl plan --target ", target,
                                "` finds plans that it runs"),
                   detail->metadata);
}

absl::Status Export(const Session& session, const ExportFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanExporter* const exporter, FindExporter(flags.target, "--to"));
  PARPLAN_ASSIGN_OR_RETURN(const std::string text_of_plan, ReadFile(flags.plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload,
                           PayloadOfFile(text_of_plan, flags.plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const Plan plan, PlanFromPayload(payload));
  PARPLAN_ASSIGN_OR_RETURN(const v1::ModelSpec message, ReadModel(flags.model_path));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(message));
  PARPLAN_RETURN_IF_ERROR(CheckModel(payload, model));
  PARPLAN_ASSIGN_OR_RETURN(const ExportFacts facts,
                           ExportFactsOf(payload.runtime_id(), payload.plan()));
  const absl::StatusOr<std::vector<ExportedFile>> files = ExportPlan(*exporter, plan, model, facts);
  if (!files.ok()) return WithWhatToPlan(files.status(), flags.target);
  if (!exporter->reads_one_file || NamesFolder(flags.output_path)) {
    return WriteFiles(session, flags, *files);
  }
  const std::string& text = files->front().text;
  if (flags.output_path == "-") return Print(session, text);
  PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, text));
  if (!session.json) return Print(session, flags.output_path + "\n");
  const nlohmann::ordered_json object = {{"target", flags.target}, {"file", flags.output_path}};
  return Print(session, object.dump(2) + "\n");
}

}  // namespace

void AddExportCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  Command command = app.AddCommand("export", "Write a plan as files of another program");
  command.Footer(
      "Refuses what the other program can't run, and says why.\nExample:\n"
      "  planctl export plan.dsse.json --model llama2-7b.model.json --to megatron --out launch\n"
      "  planctl export plan.dsse.json --model llama2-7b.model.json --to galvatron --out "
      "galvatron_config.json");
  command.AddOption("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      .Required();
  command.AddOption("--model", flags->model_path, "Model file the plan was made for").Required();
  command
      .AddOption("--to", flags->target,
                 absl::StrCat("Program: ", absl::StrJoin(ExportTargets(), ", ")))
      .Check(shell::OneOf(ExportTargets()));
  command.AddOption("--out", flags->output_path,
                    "Folder to write; of galvatron a folder or the strategy file [galvatron: "
                    "standard output; else required]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Export(session, *flags); };
  });
}

}  // namespace parplan::planctl
