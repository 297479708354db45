// The address of a store, as people write it: `sqlite:FOLDER` (or the file in it,
// `sqlite:FOLDER/parplan.db`) or `postgres://USER@HOST/DATABASE`. `parplan-server` opens its store
// by it, and so do `parplan-server store` commands.

#ifndef PARPLAN_SERVER_STORE_STORE_ADDRESS_H_
#define PARPLAN_SERVER_STORE_STORE_ADDRESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

// A parsed address.
struct StoreAddress {
  // A folder with a database of SQLite, or a server of PostgreSQL.
  enum class Kind { kSqlite, kPostgres };

  Kind kind = Kind::kSqlite;
  // Folder of `parplan.db`, without a `/` at its end unless it is `/`. Set for `kSqlite`.
  std::string directory;
  // Connection URI of libpq. Set for `kPostgres`. Has no password, so it may be shown.
  std::string uri;

  // Returns the text that `ParseStoreAddress` reads.
  std::string ToString() const;
};

// Parses an address. `field` is the name of the setting, for errors. INVALID_ARGUMENT
// (SPEC_INVALID) for another kind, for a kind without an address, and for a password: every user of
// a machine can read command lines, so libpq takes it from PGPASSFILE, ~/.pgpass or PGPASSWORD. The
// rest of a URI is not checked; `OpenStore` finds what libpq refuses. Touches no file.
absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text, absl::string_view field);

// Opens the store, never null; creates or migrates its tables as needed, and a SQLite folder whose
// parent exists. Errors, all STORE_UNAVAILABLE, are UNAVAILABLE (also if another server has the
// SQLite folder), DATA_LOSS, INTERNAL, and FAILED_PRECONDITION if a newer server wrote it or a
// PostgreSQL database is not in UTF-8. Tries for 5 s to reach a database of PostgreSQL, and waits
// without a limit for another server that migrates it, and for a migration of its own.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreAddress& address);

// Returns the turns of the servers that share this store; null for SQLite, which allows one server
// only. Does not wait for the database.
std::unique_ptr<Turns> OpenTurns(const StoreAddress& address);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORE_ADDRESS_H_
