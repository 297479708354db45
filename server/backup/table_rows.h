// The tables of a store as rows of plain values, to carry them from one database to another.

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

struct TableColumn {
  enum class Kind { kInteger, kText, kBytes };

  std::string name;
  Kind kind = Kind::kText;
  // A text that may be absent; a row has the empty one then.
  bool is_nullable = false;
};

struct StoreTable {
  std::string name;
  std::vector<TableColumn> columns;
  // Comma-separated columns, by which rows are ordered in every database alike.
  std::string order;
  // Whether its first column numbers records as they are stored, each number once.
  bool is_numbered = false;
};

// All tables, those first that others refer to. The same in every kind of database.
const std::vector<StoreTable>& StoreTables();

// The names of its columns with commas between.
std::string ColumnList(const StoreTable& table);

// A value for each column: text and bytes are strings.
using TableRow = std::vector<std::variant<int64_t, std::string>>;
using RowTaker = std::function<absl::Status(const TableRow&)>;

// The rows of a database as of one moment: that of its making.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Gives each row to `take`, until that fails. The errors of store.h.
  virtual absl::Status ReadTable(const StoreTable& table, const RowTaker& take) = 0;
  // The last number a record of the table got; 0 for none.
  virtual absl::StatusOr<int64_t> LastNumber(const StoreTable& table) = 0;
};

// Takes the rows of a whole store: all of them become visible at `Commit`, or none.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual absl::StatusOr<bool> IsEmpty() = 0;
  // Deletes all rows.
  virtual absl::Status Clear() = 0;
  virtual absl::Status Add(const StoreTable& table, const TableRow& row) = 0;
  virtual absl::Status SetLastNumber(const StoreTable& table, int64_t number) = 0;
  virtual absl::Status Commit() = 0;
};

// Names a sequence of rows by what they hold, in 64 hexadecimal digits.
class RowDigest {
 public:
  void Add(const TableRow& row);
  const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(64, '0');
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_TABLE_ROWS_H_
