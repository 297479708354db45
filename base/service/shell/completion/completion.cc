#include "base/service/shell/completion/completion.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/service/shell/completion/bash_completion.h"
#include "base/service/shell/completion/fish_completion.h"

namespace parplan::shell {

std::vector<std::string> CompletionShells() { return {"bash", "fish"}; }

std::string CompletionScript(const Command& program, const std::string& shell,
                             const std::string& made_by) {
  PARPLAN_CHECK(shell == "bash" || shell == "fish");
  const std::vector<CommandNode> tree = CommandTree(program);
  return absl::StrCat("# ", shell, " completion of ", program.name(), "; made by `", made_by,
                      "`.\n",
                      shell == "bash" ? BashCompletion(program.name(), tree)
                                      : FishCompletion(program.name(), tree));
}

void AddCompletionOption(Command program) {
  program
      .AddPrintOption("--completion",
                      [program](const std::string& shell) {
                        return CompletionScript(
                            program, shell, absl::StrCat(program.name(), " --completion ", shell));
                      })
      .Check(OneOf(CompletionShells()))
      .Group("");
}

}  // namespace parplan::shell
