#include "base/system/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace parplan {

absl::Status WriteOutputFile(const std::string& path, absl::string_view contents,
                             const AtomicWriteOptions& options) {
  struct stat before = {};
  if (::stat(path.c_str(), &before) != 0 || S_ISREG(before.st_mode) || S_ISDIR(before.st_mode)) {
    return AtomicWrite(path, contents, options);
  }
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const int error = file.is_open() ? WriteAll(file.get(), contents) : errno;
  return error == 0 ? absl::OkStatus() : ErrnoToStatus(error, "write", path);
}

}  // namespace parplan
