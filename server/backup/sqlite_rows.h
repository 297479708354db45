// The rows of a SQLite file: of a store, or of a backup. The functions of backup.h make them, for
// one thread. Errors are those of `SqliteError`: UNAVAILABLE, DATA_LOSS, INTERNAL (all
// STORE_UNAVAILABLE) and RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE).

#ifndef PARPLAN_SERVER_BACKUP_SQLITE_ROWS_H_
#define PARPLAN_SERVER_BACKUP_SQLITE_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/backup/table_rows.h"
#include "server/store/sqlite_connection.h"

namespace parplan {

// Reads rows.
class SqliteRowSource : public RowSource {
 public:
  // Begins a transaction; a server may write to the file meanwhile. `connection` must outlive the
  // source.
  static absl::StatusOr<std::unique_ptr<SqliteRowSource>> Begin(SqliteConnection& connection);

  absl::Status ReadTable(const StoreTable& table, const RowTaker& take) override;
  absl::StatusOr<int64_t> LastNumber(const StoreTable& table) override;

 private:
  SqliteRowSource(SqliteConnection& connection, SqliteTransaction transaction)
      : connection_(connection), transaction_(std::move(transaction)) {}
  SqliteConnection& connection_;
  SqliteTransaction transaction_;
};

// Writes rows.
class SqliteRowSink : public RowSink {
 public:
  // Begins a transaction, which locks out other writers until it is committed or destroyed.
  // `connection` must outlive the sink.
  static absl::StatusOr<std::unique_ptr<SqliteRowSink>> Begin(SqliteConnection& connection);

  absl::StatusOr<bool> IsEmpty() override;
  absl::Status Clear() override;
  absl::Status Add(const StoreTable& table, const TableRow& row) override;
  absl::Status SetLastNumber(const StoreTable& table, int64_t number) override;
  absl::Status Commit() override { return transaction_.Commit(); }

 private:
  SqliteRowSink(SqliteConnection& connection, SqliteTransaction transaction)
      : connection_(connection), transaction_(std::move(transaction)) {}
  SqliteConnection& connection_;
  SqliteTransaction transaction_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_SQLITE_ROWS_H_
