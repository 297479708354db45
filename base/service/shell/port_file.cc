#include "base/service/shell/port_file.h"

#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"

namespace parplan {

absl::Status WritePortFile(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status written = AtomicWrite(path, absl::StrCat(port, "\n"));
  return written.ok() ? written : absl::UnavailableError(written.message());
}

}  // namespace parplan
