// `planctl runs`: what runs of plans measured, beside what was predicted.

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "clients/planctl/runs/run_results.h"
#include "clients/planctl/runs/run_results_view.h"

namespace parplan::planctl {
namespace {

absl::Status ShowRuns(const Session& session, const std::vector<std::string>& paths) {
  std::vector<RunResult> runs;
  for (const std::string& path : paths) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<RunResult> of_file, ReadRunResults(path, text));
    runs.insert(runs.end(), of_file.begin(), of_file.end());
  }
  if (runs.empty()) {
    return FieldError(Reason::kSpecInvalid, "RESULTS",
                      "hold no measured window; give the run more steps");
  }
  return Print(session, session.json ? RunsJson(runs) : RunsText(runs));
}

}  // namespace

void AddRunsCommand(Command app, const Session& session, Action& action) {
  Command command = app.AddCommand("runs", "Compare what runs measured with what was predicted");
  command.Footer("Example:\n  planctl runs best.results.json dp.results.json");
  auto paths = std::make_shared<std::vector<std::string>>();
  command.AddOption("RESULTS", *paths, "Files that parplan-exec --results has written").Required();
  command.OnChosen([&session, &action, paths] {
    action = [&session, paths] { return ShowRuns(session, *paths); };
  });
}

}  // namespace parplan::planctl
