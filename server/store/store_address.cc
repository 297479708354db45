#include "server/store/store_address.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_turns.h"
#include "server/store/sqlite_store.h"

namespace parplan {
namespace {

constexpr absl::string_view kSqlitePrefix = "sqlite:";

// Decodes `%61` to `a`.
std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2])) {
      absl::StrAppend(&plain, absl::HexStringToBytes(text.substr(i + 1, 2)));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Returns whether all ports of `HOST:PORT,HOST:PORT` are numbers.
bool HasNumbersForPorts(absl::string_view hosts) {
  for (absl::string_view host : absl::StrSplit(hosts, ',')) {
    if (absl::StartsWith(host, "[")) host.remove_prefix(std::min(host.find(']'), host.size()));
    const size_t colon = host.find(':');
    if (colon == absl::string_view::npos) continue;
    const absl::string_view port = host.substr(colon + 1);
    if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) return false;
  }
  return true;
}

// Returns whether the part before the host has a `:`, or a parameter is a password. A password may
// contain an unescaped `/` or `?`; libpq then reads a part of it as a port, and shows it.
bool HasPassword(absl::string_view uri) {
  const absl::string_view rest = uri.substr(uri.find("://") + 3);
  const absl::string_view path = rest.substr(0, rest.find('?'));
  const size_t at = path.rfind('@');
  if (at != absl::string_view::npos) {
    if (absl::StrContains(path.substr(0, at), ":")) return true;
  } else if (!HasNumbersForPorts(path.substr(0, path.find('/')))) {
    return true;
  }
  return absl::StrContains(Unescape(rest), "password=");
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
    // The name of the file itself is accepted too.
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
