// parplan-study: compares parplan's predictions and plans with what others measured, and with what
// their programs compute. Needs no server; not installed.

#include "base/service/shell/command_program.h"
#include "proto/wire/version.h"
#include "studies/main/command.h"

namespace parplan::study {
namespace {

void AddAllCommands(Command app, const Session& session, Action& action) {
  AddAccuracyCommand(app, session, action);
  AddOracleCommand(app, session, action);
  AddParityCommand(app, session, action);
  AddModelsCommand(app, session, action);
  AddPapersCommand(app, session, action);
  AddTable2Command(app, session, action);
  shell::AddMovedCommand(app, action, "ilp", "parplan-study table2");
}

constexpr char kDescription[] =
    "Compares parplan's predictions and plans with what others measured or their programs compute";

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 internal error or a difference from what was expected, 2 bad input or "
    "nothing to compare, "
    "4 measurements missing.\n"
    "Example:\n  parplan-study accuracy runs.json --html accuracy.html";

}  // namespace

int Main(int argc, char** argv) {
  return shell::RunCommands({"parplan-study", kDescription, kFooter, kVersion}, AddAllCommands,
                            argc, argv);
}

}  // namespace parplan::study

int main(int argc, char** argv) { return parplan::study::Main(argc, argv); }
