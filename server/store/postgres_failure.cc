#include "server/store/postgres_failure.h"

#include <algorithm>
#include <pqxx/pqxx>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

bool HasClass(absl::string_view code, absl::string_view of) { return absl::StartsWith(code, of); }

// Returns advice for failures that a person can mend; empty for others.
absl::string_view Remedy(absl::string_view code) {
  if (code == "53300") {
    return "PostgreSQL takes no more connections: raise its max_connections, or run fewer replicas";
  }
  if (HasClass(code, "53")) return "PostgreSQL has no more memory or files: give it more";
  if (code == "55P03" || code == "57014") {
    return "PostgreSQL took too long, or a lock was held for too long: try again";
  }
  if (HasClass(code, "57P") || HasClass(code, "08")) {
    return "PostgreSQL is away, starts or ends: try again";
  }
  if (code == "25006") {
    return "this PostgreSQL may only be read: name the primary in --store, not a standby";
  }
  if (code == "42501") {
    return "the user of --store may not do this: let it own the tables, or run `parplan-server "
           "store "
           "migrate` as one that may make them";
  }
  if (HasClass(code, "28") || HasClass(code, "3D") || HasClass(code, "3F")) {
    return "PostgreSQL refuses user, database or schema: check --store, PGPASSFILE and pg_hba.conf";
  }
  if (HasClass(code, "58")) {
    return "PostgreSQL could not read or write: look at its log and the kernel's";
  }
  return "";
}

absl::Status StatementError(const std::string& code, absl::string_view message) {
  const std::string what = absl::StrCat(message, ", SQLSTATE ", code);
  if (code == "53100") {
    return DiskFullError(
        absl::StrCat("the disk of PostgreSQL is full: free some space and try again (", what, ")"));
  }
  const absl::string_view remedy = Remedy(code);
  if (!remedy.empty()) return StoreUnavailable(remedy, what);
  if (code == "XX001" || code == "XX002") {
    return MakeError(absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
                     absl::StrCat("store: the database is damaged: stop PostgreSQL, keep a copy of "
                                  "its data, and restore a backup (",
                                  what, ")"));
  }
  if (HasClass(code, "54")) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("store: the record is larger than PostgreSQL takes: send it in "
                                  "several parts (",
                                  what, ")"));
  }
  return MakeError(absl::StatusCode::kInternal, Reason::kStoreUnavailable,
                   absl::StrCat("store: a statement failed, which is a mistake of the server: "
                                "please report it (",
                                what, ")"));
}

}  // namespace

absl::Status StoreUnavailable(absl::string_view remedy, absl::string_view what) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   absl::StrCat("store: ", remedy, " (", what, ")"));
}

std::string OneLine(absl::string_view text) {
  std::string line(absl::StripAsciiWhitespace(text));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

bool IsPostgresRefusal(absl::string_view message) {
  for (const absl::string_view sign :
       {"authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied",
        "invalid connection option", "invalid URI", "permission denied for database"}) {
    if (absl::StrContains(message, sign)) return true;
  }
  return false;
}

PostgresFailure ReadPostgresFailure(const std::exception& error) {
  const std::string message = OneLine(error.what());
  PostgresFailure failure;
  if (dynamic_cast<const pqxx::broken_connection*>(&error) != nullptr) {
    failure.is_broken = true;
    failure.status = StoreUnavailable(IsPostgresRefusal(message)
                                          ? Remedy("28000")
                                          : absl::string_view("PostgreSQL is away: try again"),
                                      message);
  } else if (dynamic_cast<const pqxx::in_doubt_error*>(&error) != nullptr) {
    failure.is_broken = true;
    failure.status = StoreUnavailable("PostgreSQL went away: try again", message);
  } else if (dynamic_cast<const pqxx::transaction_rollback*>(&error) != nullptr) {
    failure.is_conflict = true;
    failure.status = StoreUnavailable("other transactions were in the way: try again", message);
  } else if (const auto* statement = dynamic_cast<const pqxx::sql_error*>(&error)) {
    const std::string& code = statement->sqlstate();
    // Unique and foreign keys: another transaction was first; the next attempt sees its row.
    failure.is_conflict = code == "23505" || code == "23503" || HasClass(code, "40");
    failure.is_broken = HasClass(code, "57P") || HasClass(code, "08") || code.empty();
    failure.is_of_standby = code == "25006";
    failure.status = code.empty() ? StoreUnavailable("PostgreSQL is away: try again", message)
                                  : StatementError(code, message);
  } else {
    failure.status =
        MakeError(absl::StatusCode::kInternal, Reason::kStoreUnavailable,
                  absl::StrCat("store: a mistake of the server, please report it: ", message));
  }
  return failure;
}

}  // namespace parplan
