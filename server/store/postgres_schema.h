// The tables of the PostgreSQL store, and how an older database becomes today's.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_
#define PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/postgres_pool.h"

namespace parplan {

// The schema this server writes. Numbers are those of PostgreSQL alone: SQLite has its own.
int NewestPostgresSchema();

// Brings the database to `NewestPostgresSchema()` in one transaction, under a lock that
// makes servers that start together do it once. FAILED_PRECONDITION (STORE_UNAVAILABLE) when
// a newer server wrote it; then nothing is changed.
absl::Status MigratePostgres(PostgresPool& pool, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_SCHEMA_H_
