#include "server/main/admin_commands.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

constexpr char kDescription[] = "Looks after the keys, records, roles and audit logs of a server";

constexpr char kAdminFooter[] =
    "Exit codes: 0 done, 1 internal error, 2 bad input, 5 not verified, 6 store unavailable, "
    "7 not found.\n"
    "Example:\n  parplan-server keys list --data-dir /var/lib/parplan";

}  // namespace

bool NamesAdminCommand(int argc, const char* const* argv) {
  if (argc < 2) return false;
  const absl::string_view first = argv[1];
  return first == "keys" || first == "store" || first == "access" || first == "audit" ||
         first == "--quiet" || first == "--format" || absl::StartsWith(first, "--format=");
}

int RunAdminCommand(int argc, const char* const* argv) {
  const auto add_commands = [](shell::Command app, const shell::Session& session,
                               shell::Action& action) {
    AddKeysCommand(app, session, action);
    AddStoreCommand(app, session, action);
    AddAccessCommand(app, session, action);
    AddAuditCommand(app, session, action);
  };
  return shell::RunCommands({"parplan-server", kDescription, kAdminFooter, kVersion}, add_commands,
                            argc, argv);
}

}  // namespace parplan
