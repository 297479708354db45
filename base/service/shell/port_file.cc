#include "base/service/shell/port_file.h"

#include "absl/strings/str_cat.h"
#include "base/system/output_file.h"

namespace parplan {

absl::Status WritePortFile(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  const absl::Status written = WriteOutputFile(path, absl::StrCat(port, "\n"));
  return written.ok() ? written : absl::UnavailableError(written.message());
}

}  // namespace parplan
