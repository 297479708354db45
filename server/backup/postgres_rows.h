// The rows of a store in PostgreSQL.

#ifndef PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
#define PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/backup/table_rows.h"

namespace parplan {

// Begins to read all rows as of now. Servers may write meanwhile. The errors of store.h.
absl::StatusOr<std::unique_ptr<RowSource>> BeginPostgresRowSource(const std::string& uri);

// Begins to write rows. Locks the tables until the sink is committed or destroyed.
absl::StatusOr<std::unique_ptr<RowSink>> BeginPostgresRowSink(const std::string& uri);

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
