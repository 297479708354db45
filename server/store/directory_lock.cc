#include "server/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

absl::Status Unavailable(absl::string_view message) {
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable, message);
}

absl::Status Unusable(const absl::Status& error) {
  return Unavailable(absl::StrCat("the data directory must be one that the server may write to: ",
                                  error.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(
    const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unusable(ErrnoToStatus(errno, "create", directory));
  }
  const std::string path = absl::StrCat(directory, "/parplan.lock");
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open()) return Unusable(ErrnoToStatus(errno, "open", path));
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Unusable(ErrnoToStatus(errno, "lock", path));
    char holder[32] = {};
    const ssize_t length = pread(file.get(), holder, sizeof holder - 1, 0);
    return Unavailable(
        absl::StrCat("data directory: another server (process ",
                     absl::StripAsciiWhitespace(absl::string_view(holder, length > 0 ? length : 0)),
                     ") uses `", directory, "`; stop it or give this one another directory"));
  }
  // The process id is for people; without it the lock is as good.
  if (ftruncate(file.get(), 0) == 0) (void)WriteAll(file.get(), absl::StrCat(getpid(), "\n"));
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(std::move(file)));
}

}  // namespace parplan
