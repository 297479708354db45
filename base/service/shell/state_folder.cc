#include "base/service/shell/state_folder.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace parplan {

std::string DefaultStateFolder(const std::string& name) {
  // Relative paths are ignored (XDG Base Directory Specification).
  if (const char* const state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    return absl::StrCat(state, "/", name);
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return absl::StrCat(home, "/.local/state/", name);
  }
  return "";
}

}  // namespace parplan
