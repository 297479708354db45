// Where a program keeps what must outlive it, when nobody says where.

#ifndef PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_
#define PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_

#include <string>

namespace parplan {

// The folder `name` below $XDG_STATE_HOME, or below ~/.local/state; empty where the environment
// tells of neither. Not made yet. Reads the environment: before there are threads that change it.
std::string DefaultStateFolder(const std::string& name);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_SHELL_STATE_FOLDER_H_
