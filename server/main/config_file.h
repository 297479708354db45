// The configuration file of the server. `ReadSettings` reads it before the flags, and
// `parplan-server access` reads who may do what.

#ifndef PARPLAN_SERVER_MAIN_CONFIG_FILE_H_
#define PARPLAN_SERVER_MAIN_CONFIG_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "server/main/settings.h"

namespace parplan {

// Reads the file at `path`, proto JSON of `ServerConfig`
// (proto/parplan/config/v1/server_config.proto), into `settings`; fields it does not have stay. An
// `authorization` in it replaces both lists, `certificate_names` and `grants`, also by empty ones.
// INVALID_ARGUMENT (SPEC_INVALID) with file, line and field for a mistake in it, and for a file
// that cannot be read, is no regular file (a pipe would keep the server waiting at each reload) or
// has more than 64 MiB; `settings` stays as it is then. Values are checked later, with those of
// flags (`ReadSettings`).
absl::Status ReadConfigFile(const std::string& path, Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_CONFIG_FILE_H_
