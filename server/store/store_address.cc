#include "server/store/store_address.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_turns.h"
#include "server/store/sqlite_store.h"

namespace parplan {
namespace {

constexpr absl::string_view kSqlitePrefix = "sqlite:";

// Whether the part before the host has a `:`, or a parameter is a password.
bool HasPassword(absl::string_view uri) {
  const absl::string_view rest = uri.substr(uri.find("://") + 3);
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const size_t at = authority.rfind('@');
  if (at != absl::string_view::npos && absl::StrContains(authority.substr(0, at), ":")) return true;
  return absl::StrContains(rest, "password=");
}

}  // namespace

std::string StoreAddress::ToString() const {
  return kind == Kind::kPostgres ? uri : absl::StrCat(kSqlitePrefix, directory);
}

absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text, absl::string_view field) {
  StoreAddress address;
  if (absl::StartsWith(text, "postgres://") || absl::StartsWith(text, "postgresql://")) {
    if (HasPassword(text)) {
      return FieldError(Reason::kSpecInvalid, field,
                        "holds a password, which others on this machine could read; put it into a "
                        "file and name that in PGPASSFILE");
    }
    if (text.substr(text.find("://") + 3).empty()) {
      return FieldError(Reason::kSpecInvalid, field,
                        "names no database; write postgres://USER@HOST/DATABASE");
    }
    address.kind = StoreAddress::Kind::kPostgres;
    address.uri = std::string(text);
    return address;
  }
  if (absl::ConsumePrefix(&text, kSqlitePrefix)) {
    // Also the name of the file itself.
    if (text == kSqliteFileName) text = ".";
    if (absl::ConsumeSuffix(&text, absl::StrCat("/", kSqliteFileName)) && text.empty()) text = "/";
    while (text.size() > 1 && absl::ConsumeSuffix(&text, "/")) {
    }
    if (text.empty()) {
      return FieldError(Reason::kSpecInvalid, field, "names no folder; write sqlite:FOLDER");
    }
    address.directory = std::string(text);
    return address;
  }
  return FieldError(Reason::kSpecInvalid, field,
                    "must be sqlite:FOLDER or postgres://USER@HOST/DATABASE");
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreAddress& address) {
  if (address.kind == StoreAddress::Kind::kPostgres) {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PostgresStore> store,
                             PostgresStore::Open({.uri = address.uri}));
    return store;
  }
  SqliteStoreOptions options;
  options.directory = address.directory;
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<SqliteStore> store, SqliteStore::Open(options));
  return store;
}

std::unique_ptr<Turns> OpenTurns(const StoreAddress& address) {
  if (address.kind != StoreAddress::Kind::kPostgres) return nullptr;
  return std::make_unique<PostgresTurns>(PostgresTurns::Options{.uri = address.uri});
}

}  // namespace parplan
