// Files of the operating system: its errors as statuses, files that are replaced whole or not at
// all, and reads with a limit.
//
//   PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, {.max_bytes = 64 << 10}));
//   PARPLAN_RETURN_IF_ERROR(AtomicWrite(path, text, {.syncs_file = true}));
//   if (::flock(file.get(), LOCK_EX) != 0) return ErrnoToStatus(errno, "lock", path);
//
// The statuses have canonical codes and no `Reason`. A library whose contract names a code or a
// reason makes its own status from `message()`, or from `DescribeErrno`; one that has its own
// advice for every error, from `ErrnoText`.
//
// All functions block. They are safe to call from any thread, except that only one writer at a time
// may use a path with one `staged_suffix`.

#ifndef PARPLAN_BASE_SYSTEM_POSIX_FILE_H_
#define PARPLAN_BASE_SYSTEM_POSIX_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Returns the system's text for `error`, a value of errno: "No space left on device".
std::string ErrnoText(int error);

// Returns `failure`, the system's text for `error` (a value of errno) and, for errors that a
// person can mend, what to do:
// "cannot write /a/b: No space left on device; make room on this disk".
std::string DescribeErrno(int error, absl::string_view failure);

// Returns an error for the value `error` of errno after `operation` ("open", "write") on `path`.
// The message is that of `DescribeErrno` for "cannot OPERATION PATH". The code is the canonical
// one: NOT_FOUND for ENOENT, PERMISSION_DENIED for EACCES, EPERM and EROFS, RESOURCE_EXHAUSTED for
// a full disk or table of files, FAILED_PRECONDITION where the path names another kind of file,
// UNAVAILABLE for a disk that fails; else that of absl::ErrnoToStatusCode. It carries no `Reason`.
absl::Status ErrnoToStatus(int error, absl::string_view operation, absl::string_view path);

// The owner of a file descriptor, which it closes. Movable; negative while nothing is open.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }

  // Returns whether a file is open.
  bool is_open() const { return value_ >= 0; }
  // Returns the descriptor, which stays this object's; negative if nothing is open.
  int get() const { return value_; }

  // Returns the descriptor, which is the caller's from then on.
  int Release() { return std::exchange(value_, -1); }

  // Closes the file if it is open. Returns 0 or a value of errno; the descriptor is closed even on
  // error.
  int Close();

 private:
  int value_ = -1;
};

// Writes all of `contents`. Returns 0 or the errno of the write that failed, after which a part of
// `contents` may be written: EAGAIN too, so the descriptor must block. Repeats writes that a signal
// interrupts.
int WriteAll(int descriptor, absl::string_view contents);

// The permissions of a file that `AtomicWrite` makes, and how safe it is after a crash.
struct AtomicWriteOptions {
  // Permissions of the file, less those that the umask takes away unless `ignores_umask`.
  mode_t mode = 0666;
  bool ignores_umask = false;

  // Calls fsync on the contents before they get their name: after a power cut the file is the old
  // or the new one, never an empty one.
  bool syncs_file = false;
  // Calls fsync on the folder afterwards: once the call returns OK, the new file stays.
  bool syncs_folder = false;

  // Gives a file that root writes to the owner of its folder, since a service could not read it
  // otherwise.
  bool gives_to_folder_owner = false;

  // Name of the file that is written first: the path and this. One writer at a time may use it; a
  // crash may leave it, and the next write removes it.
  std::string staged_suffix = ".new";
};

// Creates `path` as a file of `contents`, or replaces the file or link that is there; a folder is
// left, with an error. Readers see the old file or the whole new one: it is written beside `path`
// under a name of its own, which follows no link, and renamed. Owner, permissions and further names
// of the old file are not taken over. On failure nothing is left beside `path`, and `path` is as it
// was, unless the message says that the folder could not be synced: then the new file is there.
// Errors are those of `ErrnoToStatus` and name `path`, or its folder if that could not be synced.
absl::Status AtomicWrite(const std::string& path, absl::string_view contents,
                         const AtomicWriteOptions& options = {});

// Gives a new file or folder, open as `descriptor`, to the owner of the folder that `path` stands
// in, if this process is root and that owner is not. Returns 0 or a value of errno.
int GiveToFolderOwner(int descriptor, const std::string& path);

// Calls fsync on a folder, so that the names in it survive a power cut. Errors are those of
// `ErrnoToStatus`.
absl::Status SyncFolder(const std::string& folder);

// Returns the part of `path` before the last slash: "/a" for "/a/b", "/" for "/b", "." if there is
// no slash.
std::string FolderOf(const std::string& path);

// The limit of a file that `ReadFile` reads, and the kinds of file it accepts.
struct ReadFileOptions {
  // Bytes; a file that has more is refused. Must be set, and be less than the largest size_t, which
  // is not checked.
  size_t max_bytes = 0;
  // Whether pipes and devices may be read too, which may wait for a writer. Without it a pipe is
  // refused at once.
  bool takes_any_kind = false;
  // Whether `-` is standard input, of whatever kind.
  bool takes_standard_input = false;
};

// Returns the contents of a file, following links. OUT_OF_RANGE naming the file and the limit if it
// has more than `max_bytes`, FAILED_PRECONDITION for a folder, and for what is no regular file
// unless `takes_any_kind`; else errors of `ErrnoToStatus`.
absl::StatusOr<std::string> ReadFile(const std::string& path, const ReadFileOptions& options);

// Reads `descriptor`, which stays open, from where it stands to its end, of whatever kind it is; a
// pipe or a terminal may keep it waiting. OUT_OF_RANGE if it has more than `max_bytes`, else errors
// of `ErrnoToStatus`; both call it `name`. What was read of a file that is refused is
// wiped from memory, since it may be a secret; so are buffers that the contents outgrow.
absl::StatusOr<std::string> ReadDescriptor(int descriptor, absl::string_view name,
                                           size_t max_bytes);

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_POSIX_FILE_H_
