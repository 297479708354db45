// `planctl completion bash|fish`: the script by which a shell completes planctl's commands.

#include "clients/planctl/commands/command.h"
#include "clients/planctl/completion/completion_script.h"

namespace parplan::planctl {

void AddCompletionCommand(CLI::App& app, const Session& session, Action& action) {
  CLI::App* completion =
      app.add_subcommand("completion", "Completion of these commands by a shell");
  completion->footer(
      "Packages install it; elsewhere, for this shell only:\n"
      "  source <(planctl completion bash)\n  planctl completion fish | source");
  completion->require_subcommand(1);
  const auto add = [&](const char* shell, auto script) {
    CLI::App* command = completion->add_subcommand(shell, std::string("The script for ") + shell);
    command->footer(std::string("Example:\n  planctl completion ") + shell);
    // The commands are all there once it runs.
    command->callback([&app, &session, &action, script] {
      action = [&app, &session, script] {
        return Print(session, script(app.get_name(), CommandTree(app)));
      };
    });
  };
  add("bash", BashCompletion);
  add("fish", FishCompletion);
}

}  // namespace parplan::planctl
