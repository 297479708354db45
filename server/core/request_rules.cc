#include "server/core/request_rules.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

constexpr size_t kMaxRequestIdBytes = 64;

}  // namespace

absl::Status RequestError(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

absl::Status CheckCharacterCount(absl::string_view text, int max_count, absl::string_view field) {
  // A database may take NUL for the end of the text.
  if (text.find('\0') != absl::string_view::npos) {
    return FieldError(Reason::kSpecInvalid, field, "must not contain the character NUL");
  }
  // Counts the bytes that begin a character: all except the continuation bytes of UTF-8.
  const auto count = std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
  if (count <= max_count) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("must have at most ", max_count, " characters"));
}

absl::Status CheckRequestId(absl::string_view request_id, bool required, absl::string_view field,
                            Reason reason) {
  if (request_id.empty() && required) {
    return FieldError(reason, field, "is required; give a random UUID, the same one for a retry");
  }
  const bool has_control = std::any_of(request_id.begin(), request_id.end(), [](char byte) {
    return static_cast<unsigned char>(byte) < 0x20;
  });
  if (request_id.size() > kMaxRequestIdBytes || has_control) {
    return FieldError(reason, field, "must be a UUID");
  }
  return absl::OkStatus();
}

absl::Status NamingField(const absl::Status& status, absl::string_view field) {
  absl::string_view rest = status.message();
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value() || !absl::ConsumePrefix(&rest, "`name`: ")) return status;
  return MakeError(status.code(), detail->reason, absl::StrCat("`", field, "`: ", rest),
                   detail->metadata);
}

}  // namespace parplan
