// Flags and output that the commands below `planctl import` share, and `planctl evaluate`.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_FLAGS_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "clients/planctl/commands/command.h"

namespace parplan::planctl {

// Adds the flags of a model that files may leave open, also those of `planctl evaluate`. REQUIRES,
// unchecked: `flags` stays where it is until the command line is read.
void AddModelFlags(Command command, ModelFlags& flags);

// The files that were written, and the answer about them.
struct Written {
  // The path of each file by its name, `what`.
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  // A line for each file: its name, a tab and the path.
  std::string text;

  // Replaces the file `path` by `message` as JSON and adds it to both members, named `what`; does
  // nothing if `path` is empty. Returns the errors of WriteFile (files.h).
  absl::Status Add(const char* what, const std::string& path,
                   const google::protobuf::Message& message);
};

// Prints the files, and unless `--quiet` is given the notes to standard error; with `--format json`
// files and notes as one object, quiet or not. Returns the errors of Print (command_program.h).
absl::Status ReportWritten(const Session& session, const Written& written,
                           const std::vector<std::string>& notes);

// Reads a file with its name. Returns INVALID_ARGUMENT (SPEC_INVALID) naming the path if it cannot
// be read (ReadFile, files.h).
absl::StatusOr<NamedText> ReadNamed(const std::string& path);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_IMPORT_FLAGS_H_
