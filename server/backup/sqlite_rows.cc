#include "server/backup/sqlite_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

using Kind = TableColumn::Kind;
using Role = SqliteConnection::Role;

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteRowSource>> SqliteRowSource::Begin(
    SqliteConnection& connection) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(connection, Role::kReader));
  return std::unique_ptr<SqliteRowSource>(new SqliteRowSource(connection, std::move(transaction)));
}

absl::Status SqliteRowSource::ReadTable(const StoreTable& table, const RowTaker& take) {
  const std::string text =
      absl::StrCat("SELECT ", ColumnList(table), " FROM ", table.name, " ORDER BY ", table.order);
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement rows, connection_.Prepare(text));
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) return absl::OkStatus();
    TableRow row;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const int column = static_cast<int>(i);
      switch (table.columns[i].kind) {
        case Kind::kInteger:
          row.emplace_back(rows.Integer(column));
          break;
        case Kind::kText:
          row.emplace_back(rows.Text(column));
          break;
        case Kind::kBytes:
          row.emplace_back(rows.Blob(column));
          break;
      }
    }
    PARPLAN_RETURN_IF_ERROR(take(row));
  }
}

absl::StatusOr<int64_t> SqliteRowSource::LastNumber(const StoreTable& table) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement read,
      connection_.Prepare("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1"));
  PARPLAN_RETURN_IF_ERROR(read.Bind(1, table.name).Step().status());
  return read.Integer(0);
}

absl::StatusOr<std::unique_ptr<SqliteRowSink>> SqliteRowSink::Begin(SqliteConnection& connection) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(connection, Role::kWriter));
  return std::unique_ptr<SqliteRowSink>(new SqliteRowSink(connection, std::move(transaction)));
}

absl::StatusOr<bool> SqliteRowSink::IsEmpty() {
  for (const StoreTable& table : StoreTables()) {
    const std::string text = absl::StrCat("SELECT EXISTS (SELECT 1 FROM ", table.name, ")");
    PARPLAN_ASSIGN_OR_RETURN(SqliteStatement look, connection_.Prepare(text));
    PARPLAN_RETURN_IF_ERROR(look.Step().status());
    if (look.Integer(0) != 0) return false;
  }
  return true;
}

absl::Status SqliteRowSink::Clear() {
  for (auto table = StoreTables().rbegin(); table != StoreTables().rend(); ++table) {
    PARPLAN_RETURN_IF_ERROR(connection_.Execute(absl::StrCat("DELETE FROM ", table->name)));
  }
  return absl::OkStatus();
}

absl::Status SqliteRowSink::Add(const StoreTable& table, const TableRow& row) {
  std::string values;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string value = absl::StrCat("?", i + 1);
    absl::StrAppend(&values, i == 0 ? "" : ", ",
                    table.columns[i].is_nullable ? absl::StrCat("nullif(", value, ", '')") : value);
  }
  const std::string text =
      absl::StrCat("INSERT INTO ", table.name, " (", ColumnList(table), ") VALUES (", values, ")");
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement insert, connection_.Prepare(text));
  for (size_t i = 0; i < row.size(); ++i) {
    const int position = static_cast<int>(i) + 1;
    if (const int64_t* const number = std::get_if<int64_t>(&row[i])) {
      insert.Bind(position, *number);
    } else if (table.columns[i].kind == Kind::kBytes) {
      insert.BindBlob(position, std::get<std::string>(row[i]));
    } else {
      insert.Bind(position, std::get<std::string>(row[i]));
    }
  }
  return insert.Run();
}

absl::Status SqliteRowSink::SetLastNumber(const StoreTable& table, int64_t number) {
  // SQLite has an entry for a table once a row was stored in it, and needs none before.
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement forget,
                           connection_.Prepare("DELETE FROM sqlite_sequence WHERE name = ?1"));
  PARPLAN_RETURN_IF_ERROR(forget.Bind(1, table.name).Run());
  if (number == 0) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement set,
      connection_.Prepare("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)"));
  return set.Bind(1, table.name).Bind(2, number).Run();
}

}  // namespace parplan
