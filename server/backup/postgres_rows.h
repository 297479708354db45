// Rows of a store in PostgreSQL.

#ifndef PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
#define PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/backup/table_rows.h"

namespace parplan {

// Servers may write meanwhile. The errors of store.h.
absl::StatusOr<std::unique_ptr<RowSource>> BeginPostgresRowSource(const std::string& uri);

// Keeps everybody else out of the tables until it is committed or gone.
absl::StatusOr<std::unique_ptr<RowSink>> BeginPostgresRowSink(const std::string& uri);

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_POSTGRES_ROWS_H_
