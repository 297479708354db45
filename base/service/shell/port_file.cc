#include "base/service/shell/port_file.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace parplan {

absl::Status WritePortFile(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  const std::string staged = path + ".new";
  {
    std::ofstream file(staged);
    file << port << "\n";
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", staged));
  }
  if (std::rename(staged.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

}  // namespace parplan
