// Launch scripts of a line or two, as tests of several folders of ideas read them.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_LAUNCH_SCRIPT_CASES_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_LAUNCH_SCRIPT_CASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/import/launch_script.h"

namespace parplan {

// Reads `text` as run.sh, whose command has the argument `--size`.
inline absl::StatusOr<LaunchCommand> ReadScript(const std::string& text) {
  return ReadLaunchScript({"run.sh", text}, "--size");
}

// Returns the arguments of a script whose command has `--size 1` in front of `words`, with a bar
// between them, or the message of the error.
inline std::string Arguments(const std::string& before, const std::string& words) {
  const auto command = ReadScript(absl::StrCat(before, "\npython train.py --size 1 ", words, "\n"));
  if (!command.ok()) return std::string(command.status().message());
  std::vector<std::string> arguments(command->arguments.begin() + 2, command->arguments.end());
  return absl::StrJoin(arguments, "|");
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_LAUNCH_SCRIPT_CASES_H_
