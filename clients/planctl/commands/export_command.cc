// `planctl export --to galvatron`: a plan as a file of another runtime.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "clients/export/galvatron_plan_export.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "proto/wire/model_wire.h"

namespace parplan::planctl {
namespace {

struct ExportFlags {
  std::string plan_path;
  std::string model_path;
  std::string target = "galvatron";
  std::string output_path = "-";
};

absl::Status Export(const Session& session, const ExportFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const v1::ModelSpec message, ReadModel(flags.model_path));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(message));
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ExportGalvatronPlan(view.plan, model));
  if (flags.output_path == "-") return Print(session, text);
  PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, text));
  if (!session.json) return Print(session, flags.output_path + "\n");
  const nlohmann::ordered_json object = {{"target", flags.target}, {"file", flags.output_path}};
  return Print(session, object.dump(2) + "\n");
}

}  // namespace

void AddExportCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ExportFlags>();
  Command command = app.AddCommand("export", "Write a plan as a file of another runtime");
  command.Footer(
      "Refuses what the other format can't hold, and says why.\nExample:\n"
      "  planctl export plan.dsse.json --model llama2-7b.model.json --to galvatron --out "
      "galvatron_config.json");
  command.AddOption("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      .Required();
  command.AddOption("--model", flags->model_path, "Model file the plan was made for").Required();
  command.AddOption("--to", flags->target, "Runtime: galvatron").Check(shell::OneOf({"galvatron"}));
  command.AddOption("--out", flags->output_path, "File to write [standard output]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Export(session, *flags); };
  });
}

}  // namespace parplan::planctl
