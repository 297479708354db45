// The tables of the SQLite store, and migrations of older files. `SqliteStore::Open` and restores
// migrate; backups compare the number.

#ifndef PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_
#define PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/sqlite_connection.h"

namespace parplan {

// Returns the number of the schema that this server writes.
int NewestSqliteSchema();

// Migrates the database to `NewestSqliteSchema()`, each step in one transaction with its entry in
// `schema_version`; an empty database starts at 0. FAILED_PRECONDITION (STORE_UNAVAILABLE), with
// nothing changed, if a newer server wrote the database; those of `SqliteError` (UNAVAILABLE,
// DATA_LOSS, INTERNAL).
absl::Status MigrateSqlite(SqliteConnection& connection, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_
