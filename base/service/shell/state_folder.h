// The default folder for files that must outlive a program. The server and the agent use it where
// no folder is named.

#ifndef PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_
#define PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_

#include <string>

namespace parplan {

// Returns the folder `name` below $XDG_STATE_HOME, or below $HOME/.local/state; empty if the
// environment names neither, and then the program must be given a folder. A relative
// $XDG_STATE_HOME is ignored, as the XDG Base Directory Specification demands. Does not create the
// folder. Reads the environment, so it must be called before threads that change it.
std::string DefaultStateFolder(const std::string& name);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_
