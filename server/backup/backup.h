// Everything a store holds in one file, and back into a store of any kind.
//
// The file is a SQLite database with the tables of the store and one more,
// `backup_manifest`: how many rows each table has and a digest of them. It holds no keys.

#ifndef PARPLAN_SERVER_BACKUP_BACKUP_H_
#define PARPLAN_SERVER_BACKUP_BACKUP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store_address.h"

namespace parplan {

struct BackupSummary {
  // Of each table, in the order of `StoreTables()`.
  std::vector<std::pair<std::string, int64_t>> row_counts;
  // Of all that is in it: equal stores, equal digests, whatever their kind.
  std::string digest;
};

// Writes what `from` holds at one moment to the new file `path` (mode 0600), whole or not at
// all. Servers may go on meanwhile. FAILED_PRECONDITION (STORE_UNAVAILABLE) where the file is
// there or the store has an older schema; the errors of store.h.
absl::StatusOr<BackupSummary> BackUpStore(const StoreAddress& from, const std::string& path);

// Reads the whole file and compares it with what it says it holds. DATA_LOSS
// (STORE_UNAVAILABLE) where it is no backup, or not as it was written.
absl::StatusOr<BackupSummary> CheckBackup(const std::string& path);

// Puts what `path` holds into `to`, all of it or nothing, after `CheckBackup`. A store that is
// not empty is FAILED_PRECONDITION (STORE_UNAVAILABLE) unless `replace` is set; then what it
// held is gone. No server may run on it: SQLite refuses, PostgreSQL can't know.
absl::StatusOr<BackupSummary> RestoreStore(const std::string& path, const StoreAddress& to,
                                           bool replace);

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_BACKUP_H_
