// The tables of the SQLite store, and how an older file becomes today's.

#ifndef PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_
#define PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/sqlite_connection.h"

namespace parplan {

// The schema this server writes.
int NewestSqliteSchema();

// Brings the database to `NewestSqliteSchema()`, each step in one transaction with
// its entry in `schema_version`; an empty database starts at 0. FAILED_PRECONDITION
// (STORE_UNAVAILABLE) when a newer server wrote it; then nothing is changed.
absl::Status MigrateSqlite(SqliteConnection& connection, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_SCHEMA_H_
