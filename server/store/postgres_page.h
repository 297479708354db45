// Pages of the lists of the PostgreSQL store. The lists in postgres_profiles.cc and its like read
// their pages with it.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_PAGE_H_
#define PARPLAN_SERVER_STORE_POSTGRES_PAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_values.h"

namespace parplan {

// A list: some records of a table.
struct PostgresList {
  absl::string_view table;
  // Columns that `read` gets: `sequence` first, `bytes` among them.
  absl::string_view columns;
  // SQL condition, which must use the parameters `$1` and `$2`. It may also use `$3`, the sequence
  // before which the page begins, and `$4`, the number of records of a page.
  absl::string_view condition;
  // Values of `$1` and of `$2`.
  std::string first;
  std::string second;
  // Identifies the list in page tokens.
  std::string name;
};

// Reads a page, the newest records first; it ends by count or bytes (`kMaxPageBytes`), but has at
// least one record if there is any. An empty token says that no more follow. Uses one statement, so
// it sees one moment of the database; only the records of the page are transferred. `read` converts
// a row to a record and may be called again for the same row. Returns the errors of
// `PostgresPool::Read` (postgres_pool.h).
template <typename Record, typename ReadFunction>
absl::StatusOr<Page<Record>> ReadPostgresPage(PostgresPool& pool, const PostgresList& list,
                                              const PagePosition& position, ReadFunction read) {
  const std::string statement = absl::StrCat(
      "WITH candidates AS (SELECT sequence AS place, octet_length(bytes) AS size FROM ", list.table,
      " WHERE ", list.condition,
      " AND sequence < $3 ORDER BY sequence DESC LIMIT $4 + 1), "
      "sized AS (SELECT place, row_number() OVER newest_first AS number, coalesce(sum(size) OVER ("
      "newest_first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS size_before "
      "FROM candidates WINDOW newest_first AS (ORDER BY place DESC)) "
      "SELECT ",
      list.columns, ", (SELECT count(*) FROM candidates) FROM sized JOIN ", list.table,
      " ON sequence = place WHERE number <= $4 AND size_before < $5 ORDER BY sequence DESC");
  Page<Record> page;
  const absl::Status status = pool.Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result rows =
        transaction.exec_params(statement, list.first, list.second, position.before_sequence,
                                int64_t{position.page_size}, kMaxPageBytes);
    page = Page<Record>();
    for (const pqxx::row& row : rows) page.records.push_back(read(row));
    if (rows.empty()) return absl::OkStatus();
    const pqxx::row last = rows.back();
    if (IntegerOf(last[last.size() - 1]) > static_cast<int64_t>(rows.size())) {
      page.next_page_token = MakePageToken(list.name, IntegerOf(last[0]));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return page;
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_PAGE_H_
