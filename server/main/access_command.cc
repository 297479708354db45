// `parplan-server access table|show`: which role may call what, and which roles an identity holds.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/service/shell/command_program.h"
#include "base/status_macros.h"
#include "server/access/access_table.h"
#include "server/access/authorizer.h"
#include "server/main/admin_commands.h"
#include "server/main/config_file.h"
#include "server/main/settings.h"
#include "server/main/settings_rules.h"

namespace parplan {
namespace {

using shell::Print;
using shell::Session;

struct AccessFlags {
  std::string config;
  std::string uri;
  std::string dns_name;
  std::string common_name;
  std::optional<int64_t> user;
};

std::string TextOf(const IdSet& set) { return set.has_all ? "*" : absl::StrJoin(set.ids, ","); }

absl::Status Table(const Session& session, const AccessFlags& /*flags*/) {
  return Print(session, AccessTableMarkdown());
}

// Prints the identity of a certificate with these names, or of a user, and its roles.
absl::Status ShowRoles(const Session& session, const AccessFlags& flags) {
  Settings settings;
  PARPLAN_RETURN_IF_ERROR(ReadConfigFile(flags.config, settings));
  PARPLAN_ASSIGN_OR_RETURN(AccessRules rules, AccessRulesOf(settings));
  const bool allows_all = rules.policy.allows_all();
  Authorizer authorizer(std::move(rules));
  CertificateNames names;
  if (!flags.uri.empty()) names.uris.push_back(flags.uri);
  if (!flags.dns_name.empty()) names.dns_names.push_back(flags.dns_name);
  if (!flags.common_name.empty()) names.common_names.push_back(flags.common_name);
  const bool has_names =
      !names.uris.empty() || !names.dns_names.empty() || !names.common_names.empty();
  if (has_names && flags.user.has_value()) {
    return FieldError(Reason::kSpecInvalid, "--uid",
                      "a caller has a certificate or is a user of a Unix socket; leave one out");
  }
  const std::shared_ptr<const Caller> caller =
      has_names                ? authorizer.CallerOf(names)
      : flags.user.has_value() ? authorizer.CallerOfLocalUser(static_cast<uid_t>(*flags.user))
                               : authorizer.AnonymousCaller();
  nlohmann::ordered_json object = {{"identity", caller->identity().text()},
                                   {"may_do_everything", allows_all},
                                   {"roles", nlohmann::ordered_json::array()}};
  std::string text = absl::StrCat(caller->identity().text(), "\n");
  for (const HeldRole& held : caller->roles()) {
    object["roles"].push_back({{"role", std::string(RoleName(held.role))},
                               {"clusters", TextOf(held.clusters)},
                               {"nodes", TextOf(held.nodes)},
                               {"jobs", TextOf(held.jobs)}});
    absl::StrAppend(&text, "  ", RoleName(held.role), " in clusters ", TextOf(held.clusters));
    if (held.role == Role::kAgent) absl::StrAppend(&text, ", nodes ", TextOf(held.nodes));
    if (held.role == Role::kExecutor) absl::StrAppend(&text, ", jobs ", TextOf(held.jobs));
    absl::StrAppend(&text, "\n");
  }
  if (session.json) return Print(session, object.dump(2) + "\n");
  if (allows_all) {
    absl::StrAppend(&text, "  may do everything: nobody is restricted\n");
  } else if (caller->roles().empty()) {
    absl::StrAppend(&text, "  holds no role\n");
  }
  return Print(session, text);
}

}  // namespace

void AddAccessCommand(shell::Command app, const Session& session, shell::Action& action) {
  auto flags = std::make_shared<AccessFlags>();
  shell::Command access =
      app.AddCommand("access", "Shows what roles may do, and which roles an identity holds");
  access.Footer("Example:\n  parplan-server access show --config parplan-server.json --dns a.lab");
  access.RequireCommand();
  const auto add = [&](const char* name, const char* help, const char* example, auto run) {
    shell::Command command = access.AddCommand(name, help);
    command.Footer(absl::StrCat("Example:\n  parplan-server access ", name, example));
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
    return command;
  };
  add("table", "Print the table of methods and roles (docs/security.md has it)", "", Table);
  shell::Command show =
      add("show",
          "Print the roles of a certificate with these names, or of a user; without either, of a "
          "caller without a certificate",
          " --config parplan-server.json --uri spiffe://lab.example/node/a", ShowRoles);
  show.AddOption("--config", flags->config, "Configuration file of the server")
      .TypeName("FILE")
      .Required();
  show.AddOption("--uri", flags->uri, "A URI among its alternative names").TypeName("URI");
  show.AddOption("--dns", flags->dns_name, "A DNS name among its alternative names")
      .TypeName("NAME");
  show.AddOption("--cn", flags->common_name, "Its common name").TypeName("NAME");
  show.AddOption("--uid", flags->user, "Number of a user of the Unix socket instead")
      .TypeName("N")
      .Check(shell::Between(0.0, 4294967294.0));
}

}  // namespace parplan
