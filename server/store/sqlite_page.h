// Pages of the lists of the SQLite store. The lists in sqlite_profiles.cc and its like read their
// pages with it.

#ifndef PARPLAN_SERVER_STORE_SQLITE_PAGE_H_
#define PARPLAN_SERVER_STORE_SQLITE_PAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite_connection.h"

namespace parplan {

// Reads rows until the page has `page_size` records or kMaxPageBytes; the record that reaches these
// bytes is still in it. If more rows follow, the page has the token of the next one, which names
// `list`; else its token is empty. Column 0 of a row is its sequence number; `read` converts a row
// to a record with `bytes`. Returns the errors of `rows.Step()`. REQUIRES, unchecked: `page_size`
// is above 0, as `ReadPageRequest` (page_token.h) gives it; `rows` is bound and gives the newest
// row first.
template <typename Record, typename ReadFunction>
absl::StatusOr<Page<Record>> ReadPage(SqliteStatement& rows, const std::string& list, int page_size,
                                      ReadFunction read) {
  Page<Record> page;
  int64_t last_sequence = 0;
  int64_t byte_count = 0;
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) return page;
    // The row after a full page only shows that there is a next page.
    if (static_cast<int>(page.records.size()) == page_size || byte_count >= kMaxPageBytes) {
      page.next_page_token = MakePageToken(list, last_sequence);
      return page;
    }
    last_sequence = rows.Integer(0);
    page.records.push_back(read(rows));
    byte_count += static_cast<int64_t>(page.records.back().bytes.size());
  }
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_PAGE_H_
