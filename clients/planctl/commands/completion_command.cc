// `planctl completion bash|fish`: the script by which a shell completes planctl's commands.

#include "base/service/shell/completion/completion.h"
#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

void AddCompletionCommand(Command app, const Session& session, Action& action) {
  Command completion = app.AddCommand("completion", "Completion of these commands by a shell");
  completion.Footer(
      "Packages install it; elsewhere, for this shell only:\n"
      "  source <(planctl completion bash)\n  planctl completion fish | source");
  completion.RequireCommand();
  for (const std::string& shell : shell::CompletionShells()) {
    Command command = completion.AddCommand(shell, "The script for " + shell);
    command.Footer("Example:\n  planctl completion " + shell);
    // The commands are all there once it runs.
    command.OnChosen([app, &session, &action, shell] {
      action = [app, &session, shell] {
        return Print(session, CompletionScript(app, shell, "planctl completion " + shell));
      };
    });
  }
}

}  // namespace parplan::planctl
