// The tables of the PostgreSQL store, and migrations of older databases. `PostgresStore::Open` and
// restores migrate; backups compare the number.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_
#define PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/postgres_pool.h"

namespace parplan {

// Returns the number of the schema that this server writes. SQLite has numbers of its own.
int NewestPostgresSchema();

// Migrates the database in one transaction, under a lock, so that servers that start together do it
// once; waits without a limit while another does. Only tests of migrations set `schema`, the number
// to migrate to. FAILED_PRECONDITION (STORE_UNAVAILABLE), with nothing changed, if a newer server
// wrote the database; UNAVAILABLE, DATA_LOSS and INTERNAL (all STORE_UNAVAILABLE) as
// `PostgresPool::Write` returns them.
absl::Status MigratePostgres(PostgresPool& pool, absl::Time now,
                             int schema = NewestPostgresSchema());

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_
