// The configuration file of the server. `ReadSettings` reads it before the flags, and
// `parplan-server access` reads who may do what.

#ifndef PARPLAN_SERVER_MAIN_CONFIG_FILE_H_
#define PARPLAN_SERVER_MAIN_CONFIG_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "server/main/settings.h"

namespace parplan {

// Reads the file at `path`, proto JSON of `ServerConfig`
// (proto/parplan/config/v1/server_config.proto), into `settings`. Settings that the file does not
// give stay as they are. If it gives `authorization`, this replaces `certificate_names`, `grants`
// and `unix_users`, by empty lists and false if it leaves them out; `service_accounts` stays if it
// leaves that out.
//
// INVALID_ARGUMENT (SPEC_INVALID) for a text that `ParseJson` (json_file.h) refuses; the message
// names file, line and field. The same, with `config` as the field, for a file that cannot be read,
// is no regular file (a pipe would keep the server waiting at each reload) or has more than 64 MiB.
// After an error `settings` is unchanged. Which values are allowed is checked later, together with
// those of flags (`ReadSettings`).
absl::Status ReadConfigFile(const std::string& path, Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_CONFIG_FILE_H_
