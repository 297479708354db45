// The lock that keeps a second server out of a data directory. `SqliteStore` holds it while it is
// open.

#ifndef PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_
#define PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/system/posix_file.h"

namespace parplan {

// Holds flock(2) on the file `parplan.lock` of a directory as long as it lives. The kernel releases
// the lock when the process ends, however it ends, so it never has to be removed by hand.
class DirectoryLock {
 public:
  // Creates the directory (mode 0700, its parent must exist) and the file (0600) if absent.
  // UNAVAILABLE (STORE_UNAVAILABLE) if another process or object holds the lock, naming its process
  // id, or if the directory cannot be written. Does not wait for a holder. The mode of a directory
  // or file that is there is neither checked nor changed.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& directory);

  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(FileDescriptor file) : file_(std::move(file)) {}

  // Closing the file releases the lock.
  const FileDescriptor file_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_
