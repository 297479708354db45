// Everything a store holds in one file, and back into a store of any kind.
//
// The file is a SQLite database with the tables of the store and one more, `backup_manifest`: how
// many rows each table has and a digest of them. It holds no signing keys. The commands
// `parplan-server store backup`, `check` and `restore` call it. Functions that work on other files
// and stores may run at the same time.

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

// Summary of the contents of a backup.
struct BackupSummary {
  // Names of tables and numbers of their rows, in the order of `StoreTables()` (table_rows.h). The
  // backup of an older release lacks later tables.
  std::vector<std::pair<std::string, int64_t>> row_counts;
  // Digest of the contents, 64 hexadecimal digits. Stores of one release with equal contents have
  // equal digests, whatever their database.
  std::string digest;
};

// Writes the contents of `from` at one moment to the new file `path` (mode 0600), whole or not at
// all: first to `path` with `.new` behind it, which must not exist either. Servers may run
// meanwhile. FAILED_PRECONDITION (STORE_UNAVAILABLE) if the file exists or cannot be made, or the
// store has another schema than this release; NOT_FOUND (RESOURCE_NOT_FOUND) if there is no SQLite
// store that can be read; the store's UNAVAILABLE (also for a full disk), DATA_LOSS and INTERNAL
// (all STORE_UNAVAILABLE).
absl::StatusOr<BackupSummary> BackUpStore(const StoreAddress& from, const std::string& path);

// Reads all tables and compares them with the digests and counts in the file. DATA_LOSS
// (STORE_UNAVAILABLE) if it is not a backup or differs from what was written; FAILED_PRECONDITION
// (STORE_UNAVAILABLE) if a newer release wrote it, whose tables this one does not know; NOT_FOUND
// (RESOURCE_NOT_FOUND) if it is absent or cannot be read; UNAVAILABLE or INTERNAL
// (STORE_UNAVAILABLE) if the disk or SQLite fails.
absl::StatusOr<BackupSummary> CheckBackup(const std::string& path);

// Checks the backup `path`, then writes it into `to`, all of it or nothing. A SQLite folder or
// tables that are absent are created, and stay after an error. Needs room for a copy of the backup
// beside it (`path` with `.restoring` behind it, which must not exist), and removes that. Returns
// the summary and the errors of `CheckBackup`, and the errors of opening the store (`OpenStore`,
// server/store/store_address.h) and of writing to it; FAILED_PRECONDITION (STORE_UNAVAILABLE) if
// the copy cannot be made, or the store is not empty, unless `replace` is set, which deletes its
// contents. REQUIRES: no server uses the store; SQLite refuses otherwise, PostgreSQL cannot know.
absl::StatusOr<BackupSummary> RestoreStore(const std::string& path, const StoreAddress& to,
                                           bool replace);

}  // namespace parplan

#endif  // PARPLAN_SERVER_BACKUP_BACKUP_H_
