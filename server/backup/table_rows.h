// The tables of a store as rows of plain values, to copy them from one database to another.
// backup.cc copies them; sqlite_rows.h and postgres_rows.h read and write them.

#ifndef PARPLAN_SERVER_BACKUP_TABLE_ROWS_H_
#define PARPLAN_SERVER_BACKUP_TABLE_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

// A column of a table.
struct TableColumn {
  // The type of its values in a row: a whole number, a text, or bytes that may be no text.
  enum class Kind { kInteger, kText, kBytes };

  // Name in the database.
  std::string name;
  Kind kind = Kind::kText;
  // Whether a text may be absent (NULL) in the database; a row has the empty text then.
  bool is_nullable = false;
};

// A table of the store.
struct StoreTable {
  // Name in the database.
  std::string name;
  std::vector<TableColumn> columns;
  // Columns, separated by `, `, that give rows the same order in every database, all ascending.
  std::string order;
  // Whether the first column numbers the records in the order they are stored, each number once.
  bool is_numbered = false;
  // The number of the first schema of SQLite that has the table; backups of older ones lack it.
  int64_t first_schema = 1;
};

// Returns all tables, each after those that it refers to. They are the same in every database, and
// live as long as the process.
const std::vector<StoreTable>& StoreTables();

// Returns the names of the columns of a table in its order, separated by `, `.
std::string ColumnList(const StoreTable& table);

// One value per column of the table, in its order; integers, or texts and bytes as strings.
using TableRow = std::vector<std::variant<int64_t, std::string>>;
// Takes a row, valid during the call. An error ends the reading.
using RowTaker = std::function<absl::Status(const TableRow&)>;

// The rows of a database, all as of one moment, no later than the first read. After an error only
// the destructor may be called. Used by one thread.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Calls `take` with each row, in the table's `order`, until it fails, and returns its error; else
  // OK, or the store's UNAVAILABLE, DATA_LOSS or INTERNAL (all STORE_UNAVAILABLE), as `LastNumber`
  // does.
  virtual absl::Status ReadTable(const StoreTable& table, const RowTaker& take) = 0;
  // Returns the last number that a record of the table ever got, be the record deleted since; 0 for
  // none. PostgreSQL counts as of now, and numbers of records that were never committed too, so the
  // result may be above every number in the rows. REQUIRES, unchecked: the table `is_numbered`.
  virtual absl::StatusOr<int64_t> LastNumber(const StoreTable& table) = 0;
};

// Receives the rows of a whole store, table by table in the order of `StoreTables`. All of them
// become visible at `Commit`, or none if the sink is destroyed before it or after an error; after
// an error only the destructor may be called. Used by one thread. Errors are the store's
// UNAVAILABLE, DATA_LOSS and INTERNAL (all STORE_UNAVAILABLE), and RESOURCE_EXHAUSTED
// (UPLOAD_TOO_LARGE) for a row that it cannot hold.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Returns whether no table has a row.
  virtual absl::StatusOr<bool> IsEmpty() = 0;
  // Deletes all rows of all tables; undone if `Commit` does not follow.
  virtual absl::Status Clear() = 0;
  // Adds a row to a table, whose columns it has.
  virtual absl::Status Add(const StoreTable& table, const TableRow& row) = 0;
  // Sets the number after which a numbered table goes on; 0 for none yet. REQUIRES, unchecked: the
  // table `is_numbered`.
  virtual absl::Status SetLastNumber(const StoreTable& table, int64_t number) = 0;
  // Makes all rows visible. Only the destructor may be called afterwards.
  virtual absl::Status Commit() = 0;
};

// The digest of a sequence of rows, 64 hexadecimal digits: the SHA-256 of the digest so far (zeros
// at first), then for each value of the row the decimal number, or the length in bytes, `:` and the
// bytes, and a line feed.
class RowDigest {
 public:
  // Goes on with one more row.
  void Add(const TableRow& row);
  // Returns the digest of all rows so far.
  const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(64, '0');
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_TABLE_ROWS_H_
