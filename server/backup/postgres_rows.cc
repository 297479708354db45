#include "server/backup/postgres_rows.h"

#include <exception>
#include <pqxx/pqxx>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_schema.h"
#include "server/store/postgres_values.h"

namespace parplan {
namespace {

using Kind = TableColumn::Kind;

// Number of rows in memory at once; a plan may have megabytes.
constexpr int kFetchCount = 50;

// A copy has no limit of time.
constexpr char kNoLimits[] =
    "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; "
    "SET LOCAL idle_in_transaction_session_timeout = 0";

// Calls `body` and converts its exceptions to a status.
template <typename Body>
absl::Status Guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return ReadPostgresFailure(error).status;
  }
}

class Source : public RowSource {
 public:
  explicit Source(const std::string& uri) : session_(uri), transaction_(session_.connection()) {
    transaction_.exec(kNoLimits);
    if (transaction_.exec("SELECT to_regclass('schema_version')")[0][0].is_null()) return;
    // A transaction sees the moment at which it first reads data.
    schema_ =
        IntegerOf(transaction_.exec("SELECT coalesce(max(version), 0) FROM schema_version")[0][0]);
  }

  // 0 for none.
  int64_t schema() const { return schema_; }

  absl::Status ReadTable(const StoreTable& table, const RowTaker& take) override {
    return Guarded([&]() -> absl::Status {
      transaction_.exec(absl::StrCat("DECLARE rows NO SCROLL CURSOR FOR SELECT ", ColumnList(table),
                                     " FROM ", table.name, " ORDER BY ", CollatedOrder(table)));
      while (true) {
        const pqxx::result rows =
            transaction_.exec(absl::StrCat("FETCH ", kFetchCount, " FROM rows"));
        for (const pqxx::row& row : rows) PARPLAN_RETURN_IF_ERROR(take(ToRow(table, row)));
        if (rows.empty()) break;
      }
      transaction_.exec("CLOSE rows");
      return absl::OkStatus();
    });
  }

  absl::StatusOr<int64_t> LastNumber(const StoreTable& table) override {
    int64_t number = 0;
    PARPLAN_RETURN_IF_ERROR(Guarded([&] {
      number = IntegerOf(transaction_.exec(
          absl::StrCat("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ", table.name,
                       "_sequence_seq"))[0][0]);
      return absl::OkStatus();
    }));
    return number;
  }

 private:
  // Compares bytes, as SQLite does, whatever the language of the database.
  static std::string CollatedOrder(const StoreTable& table) {
    if (!absl::StartsWith(table.order, "cluster")) return table.order;
    return absl::StrCat(absl::StrReplaceAll(table.order, {{",", " COLLATE \"C\","}}),
                        " COLLATE \"C\"");
  }

  static TableRow ToRow(const StoreTable& table, const pqxx::row& row) {
    TableRow values;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const pqxx::field field = row[static_cast<pqxx::row::size_type>(i)];
      switch (table.columns[i].kind) {
        case Kind::kInteger:
          values.emplace_back(IntegerOf(field));
          break;
        case Kind::kText:
          values.emplace_back(field.is_null() ? std::string() : TextOf(field));
          break;
        case Kind::kBytes:
          values.emplace_back(BytesOf(field));
          break;
      }
    }
    return values;
  }

  PostgresSession session_;
  pqxx::transaction<pqxx::repeatable_read, pqxx::read_only> transaction_;
  int64_t schema_ = 0;
};

class Sink : public RowSink {
 public:
  explicit Sink(const std::string& uri) : session_(uri), transaction_(session_.connection()) {
    transaction_.exec(kNoLimits);
    for (const StoreTable& table : StoreTables()) {
      transaction_.exec(absl::StrCat("LOCK TABLE ", table.name));
    }
  }

  absl::StatusOr<bool> IsEmpty() override {
    bool is_empty = true;
    PARPLAN_RETURN_IF_ERROR(Guarded([&] {
      for (const StoreTable& table : StoreTables()) {
        if (!transaction_.exec(absl::StrCat("SELECT 1 FROM ", table.name, " LIMIT 1")).empty()) {
          is_empty = false;
        }
      }
      return absl::OkStatus();
    }));
    return is_empty;
  }

  absl::Status Clear() override {
    return Guarded([&] {
      for (auto table = StoreTables().rbegin(); table != StoreTables().rend(); ++table) {
        transaction_.exec(absl::StrCat("DELETE FROM ", table->name));
      }
      return absl::OkStatus();
    });
  }

  absl::Status Add(const StoreTable& table, const TableRow& row) override {
    std::string values;
    std::vector<std::string> texts;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string value = absl::StrCat("$", i + 1);
      if (table.columns[i].is_nullable) value = absl::StrCat("nullif(", value, ", '')");
      absl::StrAppend(&values, i == 0 ? "" : ", ", value);
      if (const int64_t* const number = std::get_if<int64_t>(&row[i])) {
        texts.push_back(absl::StrCat(*number));
        continue;
      }
      const std::string& bytes = std::get<std::string>(row[i]);
      if (table.columns[i].kind == Kind::kBytes) {
        PARPLAN_RETURN_IF_ERROR(CheckRecordSize(bytes));
        texts.push_back(absl::StrCat("\\x", absl::BytesToHexString(bytes)));
      } else {
        texts.push_back(bytes);
      }
    }
    return Guarded([&] {
      transaction_.exec_params(absl::StrCat("INSERT INTO ", table.name, " (", ColumnList(table),
                                            ") VALUES (", values, ")"),
                               pqxx::prepare::make_dynamic_params(texts));
      return absl::OkStatus();
    });
  }

  absl::Status SetLastNumber(const StoreTable& table, int64_t number) override {
    return Guarded([&] {
      transaction_.exec_params(
          absl::StrCat("SELECT setval('", table.name,
                       "_sequence_seq', greatest($1::bigint, 1), $1::bigint > 0)"),
          number);
      return absl::OkStatus();
    });
  }

  absl::Status Commit() override {
    return Guarded([&] {
      transaction_.commit();
      return absl::OkStatus();
    });
  }

 private:
  PostgresSession session_;
  pqxx::work transaction_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> BeginPostgresRowSource(const std::string& uri) {
  std::unique_ptr<Source> source;
  PARPLAN_RETURN_IF_ERROR(Guarded([&] {
    source = std::make_unique<Source>(WithPostgresDefaults(uri));
    return absl::OkStatus();
  }));
  if (source->schema() != NewestPostgresSchema()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                     absl::StrCat("the store has schema ", source->schema(),
                                  ", this release writes ", NewestPostgresSchema(),
                                  "; bring it up to date with `parplan-server store migrate`"));
  }
  return source;
}

absl::StatusOr<std::unique_ptr<RowSink>> BeginPostgresRowSink(const std::string& uri) {
  std::unique_ptr<RowSink> sink;
  PARPLAN_RETURN_IF_ERROR(Guarded([&] {
    sink = std::make_unique<Sink>(WithPostgresDefaults(uri));
    return absl::OkStatus();
  }));
  return sink;
}

}  // namespace parplan
