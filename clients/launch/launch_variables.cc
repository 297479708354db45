#include "clients/launch/launch_variables.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

absl::Status CheckValues(const LaunchVariables& variables) {
  for (const auto& [name, value] : variables) {
    if (value.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
      return FieldError(Reason::kSpecInvalid, name, "must be one line without zero bytes");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> VariableLines(const LaunchVariables& variables) {
  PARPLAN_RETURN_IF_ERROR(CheckValues(variables));
  std::string text;
  for (const auto& [name, value] : variables) absl::StrAppend(&text, name, "=", value, "\n");
  return text;
}

absl::StatusOr<std::string> ShellExports(const LaunchVariables& variables) {
  PARPLAN_RETURN_IF_ERROR(CheckValues(variables));
  std::string text;
  for (const auto& [name, value] : variables) {
    absl::StrAppend(&text, "export ", name, "='", absl::StrReplaceAll(value, {{"'", "'\\''"}}),
                    "'\n");
  }
  return text;
}

}  // namespace parplan
