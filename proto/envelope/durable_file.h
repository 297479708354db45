// Files that are whole or absent, whatever moment the machine stops at, and a
// lock between processes. Errors carry STORE_UNAVAILABLE.

#ifndef PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_
#define PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// What follows a path while its new contents are being written.
inline constexpr char kStagedSuffix[] = ".new";

// The two halves of `WriteDurably`. After `StageFile` the contents are on disk
// under `path` + `kStagedSuffix`, a file made afresh with `mode`; after
// `CommitFile` they are at `path`, and nobody saw a part of them.
absl::Status StageFile(const std::string& path, absl::string_view contents, mode_t mode);
absl::Status CommitFile(const std::string& path);

// Replaces or makes `path`. On failure `path` is as it was. One writer at a time.
absl::Status WriteDurably(const std::string& path, absl::string_view contents, mode_t mode);

// The contents of a file of at most 1 MiB. NOT_FOUND where there is none.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// As `ReadWholeFile`, and FAILED_PRECONDITION where group or others have any
// permission on the file; the message says which command mends it.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// Makes the directory with `mode` where it is absent; its parent must exist.
absl::Status MakeDirectory(const std::string& path, mode_t mode);

// FAILED_PRECONDITION where group or others have any permission on `path`.
absl::Status CheckSecretDirectory(const std::string& path);

// Held by at most one process, or one object of this process, at a time.
class FileLock {
 public:
  // Waits until the lock on `path`, an empty file made where absent, is free.
  static absl::StatusOr<FileLock> Acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_
