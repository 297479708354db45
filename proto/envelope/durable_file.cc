#include "proto/envelope/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// Larger than the list of thousands of keys; what is longer is some other file.
constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Gives an error of posix_file the code and the reason of this library's contract.
absl::Status StoreError(const absl::Status& error) {
  const auto code =
      absl::IsNotFound(error) ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable;
  return MakeError(code, Reason::kStoreUnavailable, error.message());
}

absl::Status TooOpen(const std::string& path, mode_t mode, absl::string_view wanted) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
      absl::StrFormat("%s has mode %04o: others than its owner may use the private keys in it; run "
                      "`chmod %s %s`, and replace the keys if someone may have read them",
                      path, mode & 07777, wanted, path));
}

absl::StatusOr<std::string> ReadError(const absl::Status& error) {
  if (!absl::IsOutOfRange(error)) return StoreError(error);
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                   absl::StrCat(error.message(), "; restore the right file"));
}

}  // namespace

absl::Status WriteDurably(const std::string& path, absl::string_view contents, mode_t mode) {
  const absl::Status written = AtomicWrite(path, contents,
                                           {.mode = mode,
                                            .ignores_umask = true,
                                            .syncs_file = true,
                                            .syncs_folder = true,
                                            .gives_to_folder_owner = true,
                                            .staged_suffix = kStagedSuffix});
  return written.ok() ? written : StoreError(written);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  absl::StatusOr<std::string> contents = ReadFile(path, {.max_bytes = kMaxFileBytes});
  return contents.ok() ? std::move(contents) : ReadError(contents.status());
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  // Permissions and contents are read from one descriptor, so that they are of one file.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return StoreError(ErrnoToStatus(errno, "open", path));
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return StoreError(ErrnoToStatus(errno, "read", path));
  if ((facts.st_mode & 077) != 0) return TooOpen(path, facts.st_mode, "600");
  absl::StatusOr<std::string> contents = ReadDescriptor(file.get(), path, kMaxFileBytes);
  return contents.ok() ? std::move(contents) : ReadError(contents.status());
}

absl::Status MakeDirectory(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) == 0) {
    // The umask may have taken permissions away.
    if (chmod(path.c_str(), mode) != 0)
      return StoreError(ErrnoToStatus(errno, "set the mode of", path));
    const FileDescriptor made(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made.is_open()) return StoreError(ErrnoToStatus(errno, "open", path));
    if (const int error = GiveToFolderOwner(made.get(), path); error != 0) {
      return StoreError(ErrnoToStatus(error, "set the owner of", path));
    }
    const absl::Status synced = SyncFolder(FolderOf(path));
    return synced.ok() ? synced : StoreError(synced);
  }
  struct stat facts;
  if (errno != EEXIST || stat(path.c_str(), &facts) != 0)
    return StoreError(ErrnoToStatus(errno, "create", path));
  if (!S_ISDIR(facts.st_mode)) return StoreError(ErrnoToStatus(ENOTDIR, "create", path));
  return absl::OkStatus();
}

absl::Status CheckSecretDirectory(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return StoreError(ErrnoToStatus(errno, "open", path));
  if ((facts.st_mode & 077) != 0) return TooOpen(path, facts.st_mode, "700");
  return absl::OkStatus();
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path) {
  // Only a file created here is given away: its name cannot lead to another file.
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const bool is_new = file.is_open();
  if (!is_new && errno == EEXIST) {
    file = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  if (!file.is_open()) return StoreError(ErrnoToStatus(errno, "open", path));
  if (is_new) {
    if (const int error = GiveToFolderOwner(file.get(), path); error != 0) {
      return StoreError(ErrnoToStatus(error, "set the owner of", path));
    }
  }
  while (flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return StoreError(ErrnoToStatus(errno, "lock", path));
  }
  return FileLock(std::move(file));
}

}  // namespace parplan
