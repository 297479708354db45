// `planctl completion bash|fish`: the script by which a shell completes planctl's commands.

#include "clients/planctl/commands/command.h"
#include "clients/planctl/completion/completion_script.h"

namespace parplan::planctl {

void AddCompletionCommand(Command app, const Session& session, Action& action) {
  Command completion = app.AddCommand("completion", "Completion of these commands by a shell");
  completion.Footer(
      "Packages install it; elsewhere, for this shell only:\n"
      "  source <(planctl completion bash)\n  planctl completion fish | source");
  completion.RequireCommand();
  const auto add = [&](const char* shell, auto script) {
    Command command = completion.AddCommand(shell, std::string("The script for ") + shell);
    command.Footer(std::string("Example:\n  planctl completion ") + shell);
    // The commands are all there once it runs.
    command.OnChosen([app, &session, &action, script] {
      action = [app, &session, script] {
        return Print(session, script(app.name(), CommandTree(app)));
      };
    });
  };
  add("bash", BashCompletion);
  add("fish", FishCompletion);
}

}  // namespace parplan::planctl
