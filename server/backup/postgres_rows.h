// The rows of a store in PostgreSQL, for one thread. Used by `BackUpStore` and `RestoreStore`
// (backup.h) with `StoreAddress::uri`. Each object has a connection of its own.

#ifndef PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
#define PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/backup/table_rows.h"

namespace parplan {

// Begins to read all rows as of now. Servers may write meanwhile. Returns the store's UNAVAILABLE,
// DATA_LOSS and INTERNAL (all STORE_UNAVAILABLE), and FAILED_PRECONDITION (STORE_UNAVAILABLE) if
// the store has another schema than this release.
absl::StatusOr<std::unique_ptr<RowSource>> BeginPostgresRowSource(const std::string& uri);

// Begins to write rows. Waits, however long, for others that use the tables, and locks them until
// the sink is committed or destroyed; destroyed uncommitted, it leaves the store as it was. Returns
// the same errors but the last. REQUIRES: the tables exist in the newest schema; INTERNAL if one is
// absent, else unchecked.
absl::StatusOr<std::unique_ptr<RowSink>> BeginPostgresRowSink(const std::string& uri);

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
