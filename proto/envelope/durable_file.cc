#include "proto/envelope/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Closes a file when it goes.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }
  bool ok() const { return value_ >= 0; }

 private:
  int value_;
};

// An error of the operating system, from errno.
absl::Status SystemError(absl::string_view action, const std::string& path) {
  const int code = errno;
  const auto status_code =
      code == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable;
  return MakeError(
      status_code, Reason::kStoreUnavailable,
      absl::StrCat("cannot ", action, " ", path, ": ", std::generic_category().message(code),
                   "; check that the folder exists, is writable and has free space"));
}

absl::Status TooOpen(const std::string& path, mode_t mode, absl::string_view wanted) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
      absl::StrFormat("%s has mode %04o: others than its owner may use the private keys in it; run "
                      "`chmod %s %s`, and replace the keys if someone may have read them",
                      path, mode & 07777, wanted, path));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// What root makes in the folder of a service is the service's, which could not read it else.
absl::Status GiveToOwnerOfFolder(int descriptor, const std::string& path) {
  if (geteuid() != 0) return absl::OkStatus();
  const std::string folder = FolderOf(path);
  struct stat facts;
  if (stat(folder.c_str(), &facts) != 0) return SystemError("look at", folder);
  if (facts.st_uid == 0) return absl::OkStatus();
  if (fchown(descriptor, facts.st_uid, facts.st_gid) != 0) return SystemError("give away", path);
  return absl::OkStatus();
}

// Asks the disk to keep a new name in the folder of `path`.
absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.ok() || fsync(descriptor.value()) != 0) return SystemError("sync", folder);
  return absl::OkStatus();
}

absl::Status WriteAll(int descriptor, absl::string_view contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Reads to the end. A failed read leaves no part of a secret behind.
absl::StatusOr<std::string> ReadAll(int descriptor, const std::string& path) {
  std::string contents;
  char buffer[4096];
  absl::Status status;
  while (status.ok()) {
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      status = SystemError("read", path);
    } else if (contents.size() + static_cast<size_t>(count) > kMaxFileBytes) {
      status = MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                         absl::StrCat(path, " is larger than ", kMaxFileBytes,
                                      " bytes, so it is some other file; restore it"));
    } else {
      contents.append(buffer, static_cast<size_t>(count));
    }
  }
  OPENSSL_cleanse(buffer, sizeof(buffer));
  if (!status.ok()) {
    OPENSSL_cleanse(contents.data(), contents.size());
    return status;
  }
  return contents;
}

}  // namespace

absl::Status StageFile(const std::string& path, absl::string_view contents, mode_t mode) {
  const std::string staged = path + kStagedSuffix;
  if (unlink(staged.c_str()) != 0 && errno != ENOENT) return SystemError("remove", staged);
  const Descriptor descriptor(
      open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0600));
  if (!descriptor.ok()) return SystemError("make", staged);
  PARPLAN_RETURN_IF_ERROR(WriteAll(descriptor.value(), contents, staged));
  PARPLAN_RETURN_IF_ERROR(GiveToOwnerOfFolder(descriptor.value(), staged));
  // The umask has no say.
  if (fchmod(descriptor.value(), mode) != 0) return SystemError("set the mode of", staged);
  if (fsync(descriptor.value()) != 0) return SystemError("sync", staged);
  return absl::OkStatus();
}

absl::Status CommitFile(const std::string& path) {
  const std::string staged = path + kStagedSuffix;
  if (std::rename(staged.c_str(), path.c_str()) != 0) return SystemError("replace", path);
  return SyncFolderOf(path);
}

absl::Status WriteDurably(const std::string& path, absl::string_view contents, mode_t mode) {
  PARPLAN_RETURN_IF_ERROR(StageFile(path, contents, mode));
  return CommitFile(path);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.ok()) return SystemError("open", path);
  return ReadAll(descriptor.value(), path);
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.ok()) return SystemError("open", path);
  struct stat facts;
  if (fstat(descriptor.value(), &facts) != 0) return SystemError("look at", path);
  if ((facts.st_mode & 077) != 0) return TooOpen(path, facts.st_mode, "600");
  return ReadAll(descriptor.value(), path);
}

absl::Status MakeDirectory(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) == 0) {
    if (chmod(path.c_str(), mode) != 0) return SystemError("set the mode of", path);
    const Descriptor made(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made.ok()) return SystemError("open", path);
    PARPLAN_RETURN_IF_ERROR(GiveToOwnerOfFolder(made.value(), path));
    return SyncFolderOf(path);
  }
  struct stat facts;
  if (errno != EEXIST || stat(path.c_str(), &facts) != 0) return SystemError("make", path);
  if (!S_ISDIR(facts.st_mode)) {
    errno = ENOTDIR;
    return SystemError("make", path);
  }
  return absl::OkStatus();
}

absl::Status CheckSecretDirectory(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return SystemError("look at", path);
  if ((facts.st_mode & 077) != 0) return TooOpen(path, facts.st_mode, "700");
  return absl::OkStatus();
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path) {
  // Only what is made here is given away: nobody can put another file in its place.
  int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool is_new = descriptor >= 0;
  if (!is_new && errno == EEXIST) {
    descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  if (descriptor < 0) return SystemError("open", path);
  FileLock lock(descriptor);
  if (is_new) PARPLAN_RETURN_IF_ERROR(GiveToOwnerOfFolder(descriptor, path));
  while (flock(descriptor, LOCK_EX) != 0) {
    if (errno != EINTR) return SystemError("lock", path);
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace parplan
