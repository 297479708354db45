// The commands of parplan-study, each in a file of its name. main.cc adds all of them to its
// application.

#ifndef PARPLAN_STUDIES_MAIN_COMMAND_H_
#define PARPLAN_STUDIES_MAIN_COMMAND_H_

#include "base/service/shell/command_program.h"

namespace parplan::study {

using shell::Action;
using shell::Command;
using shell::Note;
using shell::Print;
using shell::Session;

// Each adds one command to `app`. Parsing sets `action` if the command was chosen; `session` must
// live until that has run, `action` until the command line is parsed.
void AddAccuracyCommand(Command app, const Session& session, Action& action);
void AddOracleCommand(Command app, const Session& session, Action& action);
void AddParityCommand(Command app, const Session& session, Action& action);
void AddModelsCommand(Command app, const Session& session, Action& action);
void AddPapersCommand(Command app, const Session& session, Action& action);
void AddTable2Command(Command app, const Session& session, Action& action);

}  // namespace parplan::study

#endif  // PARPLAN_STUDIES_MAIN_COMMAND_H_
