#include "tests/support/shared_data.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace parplan {
namespace {

std::optional<std::string> IfFolder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return std::nullopt;
  return path.lexically_normal().string();
}

}  // namespace

std::optional<std::string> SharedDataDir() {
  const char* const named = std::getenv("PARPLAN_SHARED_DATA");
  if (named != nullptr && *named != '\0') return IfFolder(named);
  return IfFolder(std::filesystem::path(SourceDir()) / ".." / "shared" / "data");
}

std::string SourceDir() { return PARPLAN_SOURCE_DIR; }

}  // namespace parplan
