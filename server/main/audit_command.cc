// `parplan-server audit verify`: whether an audit log is whole.

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/service/shell/command_program.h"
#include "base/status_macros.h"
#include "server/audit/audit_verifier.h"
#include "server/main/admin_commands.h"

namespace parplan {
namespace {

using shell::Print;
using shell::Session;

struct AuditFlags {
  std::vector<std::string> files;
  std::string head;
};

absl::Status Broken(absl::string_view message) {
  return MakeError(absl::StatusCode::kDataLoss, Reason::kSignatureInvalid, message);
}

absl::Status Verify(const Session& session, const AuditFlags& flags) {
  AuditSummary all;
  bool has_head = flags.head.empty();
  for (size_t i = 0; i < flags.files.size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(const AuditSummary summary,
                             VerifyAuditFile(flags.files[i], flags.head));
    if (i == 0) {
      all.before = summary.before;
    } else if (summary.before != all.head && summary.line_count > 0) {
      return Broken(absl::StrCat(flags.files[i], " does not go on after ", flags.files[i - 1],
                                 "; name the files of one log, oldest first"));
    }
    if (summary.line_count > 0 || i == 0) all.head = summary.head;
    all.line_count += summary.line_count;
    has_head = has_head || summary.has_wanted;
  }
  if (!has_head) {
    return Broken(absl::StrCat("no line has the digest ", flags.head,
                               ", which --head names: lines are missing, or the log is another"));
  }
  if (session.json) {
    return Print(session, nlohmann::ordered_json{{"line_count", all.line_count},
                                                 {"first_sequence", all.before.sequence + 1},
                                                 {"last_sequence", all.head.sequence},
                                                 {"head", all.head.digest}}
                                  .dump(2) +
                              "\n");
  }
  return Print(session,
               absl::StrCat(all.line_count, " lines, whole from number ", all.before.sequence + 1,
                            " to ", all.head.sequence, "\nhead ", all.head.digest, "\n"));
}

}  // namespace

void AddAuditCommand(shell::Command app, const Session& session, shell::Action& action) {
  auto flags = std::make_shared<AuditFlags>();
  shell::Command audit = app.AddCommand("audit", "Checks audit logs");
  audit.Footer("Example:\n  parplan-server audit verify /var/lib/parplan/audit.jsonl");
  audit.RequireCommand();
  shell::Command verify = audit.AddCommand(
      "verify", "Check that no line of an audit log was changed, taken out or put in");
  verify.Footer(
      "Lines that are missing at the end only show against a digest that was kept elsewhere: the "
      "server logs that of the last line (event `audit`), and --head looks for it.\n"
      "Example:\n  parplan-server audit verify audit.jsonl.1 audit.jsonl");
  verify.AddOption("files", flags->files, "The files of one log, oldest first").Required();
  verify.AddOption("--head", flags->head, "Digest of a line that must be there").TypeName("DIGEST");
  verify.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Verify(session, *flags); };
  });
}

}  // namespace parplan
