#include "proto/wire/field_path.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace parplan {

std::string JoinPath(absl::string_view parent, absl::string_view child) {
  if (parent.empty()) return std::string(child);
  return absl::StrCat(parent, ".", child);
}

std::string JoinPath(absl::string_view parent, absl::string_view child, int index) {
  return absl::StrCat(JoinPath(parent, child), "[", index, "]");
}

absl::Status MoveFieldError(const absl::Status& status, absl::string_view from,
                            absl::string_view to, Reason reason) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return status;
  const auto field = detail->metadata.find("field");
  const auto rule = detail->metadata.find("rule");
  if (field == detail->metadata.end() || rule == detail->metadata.end()) return status;
  if (from.empty()) return FieldError(reason, JoinPath(to, field->second), rule->second);
  absl::string_view rest = field->second;
  if (!absl::ConsumePrefix(&rest, from)) return status;
  if (!rest.empty() && rest[0] != '.' && rest[0] != '[') return status;
  if (to.empty()) absl::ConsumePrefix(&rest, ".");
  return FieldError(reason, absl::StrCat(to, rest), rule->second);
}

}  // namespace parplan
