// Makes sure that one server at a time uses a data directory.

#ifndef PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_
#define PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// Holds flock(2) on the file `parplan.lock` of a directory as long as it lives.
// The kernel lets go when the process ends, however it ends, so a lock never has
// to be cleaned up by hand.
class DirectoryLock {
 public:
  // Makes the directory (mode 0700, its parent must exist) and the file (0600)
  // where absent. UNAVAILABLE (STORE_UNAVAILABLE) when another process or object
  // holds the lock, naming its process id, or the directory can't be written.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& directory);

  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int file_descriptor) : file_descriptor_(file_descriptor) {}
  const int file_descriptor_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_DIRECTORY_LOCK_H_
