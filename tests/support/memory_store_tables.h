// How `MemoryStore` finds and lists records: the templates of memory_store.h, for its sources.

#ifndef PARPLAN_TESTS_SUPPORT_MEMORY_STORE_TABLES_H_
#define PARPLAN_TESTS_SUPPORT_MEMORY_STORE_TABLES_H_

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "server/store/page_token.h"
#include "tests/support/memory_store.h"

namespace parplan {

// Returns whether a record is of the owner and the cluster of `scope`, where it names them.
template <typename Record>
bool IsIn(const Record& record, const RecordScope& scope) {
  return (scope.owner.empty() || record.owner == scope.owner) &&
         (scope.cluster.empty() || record.cluster == scope.cluster);
}

template <typename Record>
Record* MemoryStore::Find(Table<Record>& table, absl::string_view name) {
  for (auto& [position, record] : table) {
    if (record.name == name) return &record;
  }
  return nullptr;
}

template <typename Record, typename Predicate>
absl::StatusOr<Page<Record>> MemoryStore::ListNewestFirst(const Table<Record>& table,
                                                          const std::string& scope,
                                                          const PageRequest& page,
                                                          const Predicate& is_wanted) {
  if (page.page_size < 0) {
    return FieldError(Reason::kSpecInvalid, "page_size", "must be at least 0");
  }
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!page.page_token.empty()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(page.page_token, absl::MaxSplits('|', 1));
    if (parts.second != scope || !absl::SimpleAtoi(parts.first, &before)) {
      return FieldError(Reason::kSpecInvalid, "page_token",
                        "must be the next_page_token of the same list");
    }
  }
  const int size = page.page_size == 0 ? kDefaultPageSize : std::min(page.page_size, kMaxPageSize);
  Page<Record> result;
  int64_t bytes = 0;
  int64_t last = 0;
  for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {
    if (entry->first >= before || !is_wanted(entry->second)) continue;
    if (static_cast<int>(result.records.size()) == size || bytes >= kMaxPageBytes) {
      result.next_page_token = absl::StrCat(last, "|", scope);
      break;
    }
    last = entry->first;
    bytes += static_cast<int64_t>(entry->second.bytes.size());
    result.records.push_back(entry->second);
  }
  return result;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_MEMORY_STORE_TABLES_H_
