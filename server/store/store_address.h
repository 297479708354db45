// Where the records of a server lie, as people write it: `sqlite:FOLDER` or
// `postgres://USER@HOST/DATABASE`.

#ifndef PARPLAN_SERVER_STORE_STORE_ADDRESS_H_
#define PARPLAN_SERVER_STORE_STORE_ADDRESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

struct StoreAddress {
  enum class Kind { kSqlite, kPostgres };

  Kind kind = Kind::kSqlite;
  // Of `kSqlite`: the folder that holds `parplan.db`. Without a `/` at its end.
  std::string directory;
  // Of `kPostgres`: as libpq reads it. Holds no password, so it may be shown.
  std::string uri;

  // What `ParseStoreAddress` reads.
  std::string ToString() const;
};

// `field` names the setting in errors. INVALID_ARGUMENT (SPEC_INVALID) for another kind, for
// nothing after it, and for a password: every user of a machine can read command lines, so
// libpq takes it from PGPASSFILE, ~/.pgpass or PGPASSWORD.
absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text, absl::string_view field);

// Opens the store, making and migrating what is there. Errors as `SqliteStore::Open`, which
// see, and `PostgresStore::Open`.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const StoreAddress& address);

// The turns of the servers that share this store; null where there can be only one.
std::unique_ptr<Turns> OpenTurns(const StoreAddress& address);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORE_ADDRESS_H_
