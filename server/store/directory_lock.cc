#include "server/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {
namespace {

absl::Status Unavailable(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable, message);
}

absl::Status SystemError(absl::string_view what, const std::string& path, int error) {
  return Unavailable(absl::StrCat("data directory: cannot ", what, " `", path, "`: ",
                                  std::strerror(error),  // NOLINT: no locale is ever set.
                                  "; give the server a directory it may write to"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(
    const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("make", directory, errno);
  }
  const std::string path = absl::StrCat(directory, "/parplan.lock");
  const int file_descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_descriptor < 0) return SystemError("open", path, errno);
  // From here on the file is closed, and so unlocked, with the object.
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(file_descriptor));
  if (flock(file_descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock", path, errno);
    char holder[32] = {};
    const ssize_t length = pread(file_descriptor, holder, sizeof holder - 1, 0);
    return Unavailable(
        absl::StrCat("data directory: another server (process ",
                     absl::StripAsciiWhitespace(absl::string_view(holder, length > 0 ? length : 0)),
                     ") uses `", directory, "`; stop it or give this one another directory"));
  }
  // The process id is for people; a failure to write it harms nobody.
  const std::string holder = absl::StrCat(getpid(), "\n");
  if (ftruncate(file_descriptor, 0) != 0 ||
      pwrite(file_descriptor, holder.data(), holder.size(), 0) < 0) {
    return lock;
  }
  return lock;
}

DirectoryLock::~DirectoryLock() { close(file_descriptor_); }

}  // namespace parplan
