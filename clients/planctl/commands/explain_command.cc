// `planctl explain` and `planctl report`: a plan file as text or as a page.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "planner/base/status_macros.h"

namespace parplan::planctl {
namespace {

struct PlanFileFlags {
  std::string plan_path;
  std::string output_path;
};

absl::Status Explain(const Session& session, const PlanFileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
  return ShowView(session, view, "");
}

absl::Status Report(const Session& session, const PlanFileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
  PARPLAN_RETURN_IF_ERROR(WriteFile(flags.output_path, PlanHtml(view)));
  if (session.json) {
    const nlohmann::ordered_json object = {{"report", flags.output_path}};
    return Print(session, object.dump(2) + "\n");
  }
  Note(session, "report in " + flags.output_path);
  return absl::OkStatus();
}

}  // namespace

void AddExplainCommand(CLI::App& app, const Session& session, Action& action) {
  auto flags = std::make_shared<PlanFileFlags>();
  CLI::App* command = app.add_subcommand("explain", "Say what a plan does and what limits it");
  command->footer("Example:\n  planctl explain plan.dsse.json");
  command->add_option("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      ->required();
  command->callback([&session, &action, flags] {
    action = [&session, flags] { return Explain(session, *flags); };
  });
}

void AddReportCommand(CLI::App& app, const Session& session, Action& action) {
  auto flags = std::make_shared<PlanFileFlags>();
  CLI::App* command = app.add_subcommand("report", "Write a plan as one HTML page");
  command->footer("Example:\n  planctl report plan.dsse.json --out plan.html");
  command->add_option("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      ->required();
  command->add_option("--out", flags->output_path, "The page")->required();
  command->callback([&session, &action, flags] {
    action = [&session, flags] { return Report(session, *flags); };
  });
}

}  // namespace parplan::planctl
