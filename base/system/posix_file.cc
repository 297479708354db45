#include "base/system/posix_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Size of the first read from a file without a size, such as a pipe: that of the pipe's buffer.
constexpr size_t kFirstReadBytes = size_t{64} << 10;

// Returns advice about an error; empty if that depends on more than the error.
absl::string_view AdviceFor(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return "; check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the path and the rights of this user";
    case ENOSPC:
    case EDQUOT:
      return "; make room on this disk";
    case EFBIG:
      return "; raise the limit of file sizes (`ulimit -f`)";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (`ulimit -n`)";
    case EIO:
      return "; check the disk";
    default:
      return "";
  }
}

// Makes the file at `staged` and fills it. Returns 0 or the error.
int Stage(const std::string& staged, absl::string_view contents,
          const AtomicWriteOptions& options) {
  if (::unlink(staged.c_str()) != 0 && errno != ENOENT) return errno;
  // No one else may open it before it is owned and has the mode that was asked for.
  const mode_t first_mode = options.ignores_umask ? options.mode & 0600 : options.mode;
  FileDescriptor file(
      ::open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, first_mode));
  if (!file.is_open()) return errno;
  int error = WriteAll(file.get(), contents);
  if (error == 0 && options.gives_to_folder_owner) {
    error = GiveToFolderOwner(file.get(), staged);
  }
  if (error == 0 && options.ignores_umask && ::fchmod(file.get(), options.mode) != 0) error = errno;
  if (error == 0 && options.syncs_file && ::fsync(file.get()) != 0) error = errno;
  const int close_error = file.Close();
  return error != 0 ? error : close_error;
}

void Wipe(std::string& contents) { ::explicit_bzero(contents.data(), contents.size()); }

// Resizes `contents` to `size` bytes, and wipes the old buffer before it is freed.
void Grow(size_t size, std::string& contents) {
  std::string grown(size, '\0');
  std::copy(contents.begin(), contents.end(), grown.begin());
  Wipe(contents);
  contents = std::move(grown);
}

absl::Status WrongKind(const std::string& path, mode_t mode) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot read ", path, ": ",
                   S_ISDIR(mode) ? "Is a directory" : "it is no regular file", "; check the path"));
}

}  // namespace

std::string ErrnoText(int error) { return std::generic_category().message(error); }

std::string DescribeErrno(int error, absl::string_view failure) {
  return absl::StrCat(failure, ": ", ErrnoText(error), AdviceFor(error));
}

absl::Status ErrnoToStatus(int error, absl::string_view operation, absl::string_view path) {
  absl::StatusCode code = absl::ErrnoToStatusCode(error);
  // Abseil gives these UNKNOWN.
  if (error == ELOOP) code = absl::StatusCode::kFailedPrecondition;
  if (error == EIO) code = absl::StatusCode::kUnavailable;
  return absl::Status(code, DescribeErrno(error, absl::StrCat("cannot ", operation, " ", path)));
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    value_ = std::exchange(other.value_, -1);
  }
  return *this;
}

int FileDescriptor::Close() {
  if (value_ < 0) return 0;
  return ::close(std::exchange(value_, -1)) == 0 ? 0 : errno;
}

int WriteAll(int descriptor, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::Status AtomicWrite(const std::string& path, absl::string_view contents,
                         const AtomicWriteOptions& options) {
  const std::string staged = path + options.staged_suffix;
  if (const int error = Stage(staged, contents, options); error != 0) {
    ::unlink(staged.c_str());
    return ErrnoToStatus(error, "write", path);
  }
  if (std::rename(staged.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(staged.c_str());
    return ErrnoToStatus(error, "replace", path);
  }
  return options.syncs_folder ? SyncFolder(FolderOf(path)) : absl::OkStatus();
}

int GiveToFolderOwner(int descriptor, const std::string& path) {
  if (::geteuid() != 0) return 0;
  struct stat facts;
  if (::stat(FolderOf(path).c_str(), &facts) != 0) return errno;
  if (facts.st_uid == 0) return 0;
  return ::fchown(descriptor, facts.st_uid, facts.st_gid) == 0 ? 0 : errno;
}

absl::Status SyncFolder(const std::string& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open() || ::fsync(descriptor.get()) != 0) {
    return ErrnoToStatus(errno, "sync the folder", folder);
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, const ReadFileOptions& options) {
  if (options.takes_standard_input && path == "-") {
    return ReadDescriptor(STDIN_FILENO, "standard input", options.max_bytes);
  }
  // O_NONBLOCK has no effect on regular files.
  const int flags = O_RDONLY | O_CLOEXEC | (options.takes_any_kind ? 0 : O_NONBLOCK);
  const FileDescriptor file(::open(path.c_str(), flags));
  if (!file.is_open()) return ErrnoToStatus(errno, "open", path);
  struct stat facts;
  if (::fstat(file.get(), &facts) != 0) return ErrnoToStatus(errno, "read", path);
  if (S_ISDIR(facts.st_mode) || (!options.takes_any_kind && !S_ISREG(facts.st_mode))) {
    return WrongKind(path, facts.st_mode);
  }
  return ReadDescriptor(file.get(), path, options.max_bytes);
}

absl::StatusOr<std::string> ReadDescriptor(int descriptor, absl::string_view name,
                                           size_t max_bytes) {
  struct stat facts;
  const bool has_size = ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  // One byte more than allowed is enough to see that there are too many.
  const size_t first_bytes = has_size ? static_cast<size_t>(facts.st_size) + 1 : kFirstReadBytes;
  std::string contents(std::min(first_bytes, max_bytes + 1), '\0');
  size_t count = 0;
  absl::Status status;
  while (true) {
    if (count == contents.size()) Grow(std::min(2 * contents.size(), max_bytes + 1), contents);
    const ssize_t more = ::read(descriptor, contents.data() + count, contents.size() - count);
    if (more == 0) break;
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) {
      status = ErrnoToStatus(errno, "read", name);
      break;
    }
    count += static_cast<size_t>(more);
    if (count > max_bytes) {
      status = absl::OutOfRangeError(absl::StrCat(name, " has more than ", max_bytes,
                                                  " bytes, the most that is read of such a file"));
      break;
    }
  }
  if (!status.ok()) {
    Wipe(contents);
    return status;
  }
  contents.resize(count);
  return contents;
}

}  // namespace parplan
