// Files of a store of keys: whole or absent whenever the machine stops, private where they hold
// secrets, and a lock between processes.
//
// Errors carry STORE_UNAVAILABLE. NOT_FOUND: there is no such file or folder. FAILED_PRECONDITION:
// a person must act, and the message says how. UNAVAILABLE: the system refused, for a full disk,
// missing rights or a path to another kind of file. `KeyStore` and the spool of Slurm jobs
// (clients/slurm/job_bundle.h) write by it.

#ifndef PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_
#define PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/system/posix_file.h"

namespace parplan {

// Suffix of a file whose contents are being written (`AtomicWrite`). A crash may leave one.
inline constexpr char kStagedSuffix[] = ".new";

// Creates or replaces `path`, with exactly the permissions `mode`; once it returns OK, the file
// survives a power cut. What root writes belongs to the owner of the folder. On failure `path` is
// as it was, unless the message says that the folder could not be synced. One writer at a time.
absl::Status WriteDurably(const std::string& path, absl::string_view contents, mode_t mode);

// Returns the contents of a file of at most 1 MiB; FAILED_PRECONDITION if it is larger.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Reads like `ReadWholeFile`. FAILED_PRECONDITION if group or others have any permission on the
// file; the message names the command that mends it. Who owns the file is not checked.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// Creates the folder with exactly the permissions `mode` if it is absent; its parent must exist.
// One that root creates belongs to the owner of the parent. A folder that exists keeps owner and
// permissions; another kind of file at `path` is UNAVAILABLE.
absl::Status MakeDirectory(const std::string& path, mode_t mode);

// Returns FAILED_PRECONDITION if group or others have any permission on the folder `path`.
absl::Status CheckSecretDirectory(const std::string& path);

// A lock that at most one process, or one object of this process, holds at a time. Its destructor
// releases it.
class FileLock {
 public:
  // Waits, without limit, until the lock on `path`, an empty file created (mode 0600) if absent, is
  // free. A thread that holds the lock already waits for ever. The file stays when the lock is
  // released.
  static absl::StatusOr<FileLock> Acquire(const std::string& path);

  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}

  // Closing the file releases the lock.
  FileDescriptor file_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_DURABLE_FILE_H_
