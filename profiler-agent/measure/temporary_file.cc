#include "profiler-agent/measure/temporary_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

constexpr char kAdvice[] = "; set TMPDIR to a folder that is writable";

}  // namespace

absl::StatusOr<std::string> WriteTemporaryFile(absl::string_view prefix,
                                               absl::string_view content) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("no folder for temporary files: ", error.message(), kAdvice));
  }
  std::string path = (folder / absl::StrCat(prefix, "-XXXXXX")).string();
  const int file = ::mkstemp(path.data());
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", path, ": ", ErrnoText(errno), kAdvice));
  }
  ::close(file);
  std::ofstream stream(path, std::ios::binary);
  if (!stream.write(content.data(), static_cast<std::streamsize>(content.size())) ||
      !stream.flush()) {
    ::unlink(path.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write ", path, "; check the free space"));
  }
  return path;
}

}  // namespace parplan
