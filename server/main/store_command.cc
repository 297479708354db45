// `parplan-server store migrate|backup|check|restore`: the records of a server.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/service/shell/command_program.h"
#include "base/status_macros.h"
#include "server/backup/backup.h"
#include "server/main/admin_commands.h"
#include "server/store/store_address.h"

namespace parplan {
namespace {

using shell::Note;
using shell::Print;
using shell::Session;

struct StoreFlags {
  std::string store;
  std::string file;
  bool replace = false;
};

absl::Status Show(const Session& session, const std::string& what, const BackupSummary& summary) {
  if (session.json) {
    nlohmann::ordered_json object;
    object["digest"] = summary.digest;
    for (const auto& [table, count] : summary.row_counts) object["row_counts"][table] = count;
    return Print(session, object.dump(2) + "\n");
  }
  std::string text = what + "\n";
  for (const auto& [table, count] : summary.row_counts) {
    absl::StrAppendFormat(&text, "  %-20s %d\n", table, count);
  }
  absl::StrAppend(&text, "digest ", summary.digest, "\n");
  return Print(session, text);
}

absl::Status Migrate(const Session& session, const StoreFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const StoreAddress address, ParseStoreAddress(flags.store, "store"));
  PARPLAN_RETURN_IF_ERROR(OpenStore(address).status());
  if (session.json) {
    return Print(session, nlohmann::ordered_json{{"store", address.ToString()}}.dump(2) + "\n");
  }
  return Print(session, absl::StrCat(address.ToString(), " is up to date\n"));
}

absl::Status BackUp(const Session& session, const StoreFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const StoreAddress address, ParseStoreAddress(flags.store, "store"));
  PARPLAN_ASSIGN_OR_RETURN(const BackupSummary summary, BackUpStore(address, flags.file));
  Note(session, "the signing keys are not in it: keep a copy of the folder `keys` as well");
  return Show(session, absl::StrCat(flags.file, " holds"), summary);
}

absl::Status CheckFile(const Session& session, const StoreFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const BackupSummary summary, CheckBackup(flags.file));
  return Show(session, absl::StrCat(flags.file, " is whole and holds"), summary);
}

absl::Status Restore(const Session& session, const StoreFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const StoreAddress address, ParseStoreAddress(flags.store, "store"));
  PARPLAN_ASSIGN_OR_RETURN(const BackupSummary summary,
                           RestoreStore(flags.file, address, flags.replace));
  return Show(session, absl::StrCat(address.ToString(), " holds now"), summary);
}

}  // namespace

void AddStoreCommand(shell::Command app, const Session& session, shell::Action& action) {
  auto flags = std::make_shared<StoreFlags>();
  shell::Command store =
      app.AddCommand("store", "Makes, backs up, checks and restores the records of a server");
  store.Footer(
      "A store is sqlite:FOLDER, the data folder of a server, or postgres://USER@HOST/DATABASE; "
      "the password of the latter comes from PGPASSFILE. A backup can be restored to either.\n"
      "Example:\n  parplan-server store backup --store sqlite:/var/lib/parplan --file "
      "parplan.backup");
  store.RequireCommand();
  const auto add = [&](const char* name, const char* help, bool has_store, bool has_file,
                       auto run) {
    shell::Command command = store.AddCommand(name, help);
    command.Footer(absl::StrCat("Example:\n  parplan-server store ", name,
                                has_store ? " --store sqlite:/var/lib/parplan" : "",
                                has_file ? " --file parplan.backup" : ""));
    if (has_store) {
      command.AddOption("--store", flags->store, "sqlite:FOLDER or postgres://...")
          .TypeName("ADDRESS")
          .Required();
    }
    if (has_file) {
      command.AddOption("--file", flags->file, "The backup").TypeName("FILE").Required();
    }
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
    return command;
  };
  add("migrate", "Create the tables, or update them to this release; a server does so itself", true,
      false, Migrate);
  add("backup", "Write all records of one moment to a new file; servers may keep running", true,
      true, BackUp);
  add("check", "Check that a backup is complete and undamaged", false, true, CheckFile);
  add("restore", "Restore a backup into an empty store that no server uses", true, true, Restore)
      .AddFlag("--replace", flags->replace,
               "Restore into a store that is not empty; its records are lost");
}

}  // namespace parplan
