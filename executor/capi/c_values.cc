#include "executor/capi/c_values.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan::capi {
namespace {

void CopyText(const std::string& text, char* to, size_t size) {
  const size_t count = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
}

int32_t CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return PARPLAN_OK;
    case absl::StatusCode::kInvalidArgument: {
      const auto detail = GetErrorDetail(status);
      const bool is_of_plan = detail.has_value() && detail->reason == Reason::kPayloadMalformed;
      return is_of_plan ? PARPLAN_REFUSED : PARPLAN_INVALID_ARGUMENT;
    }
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
      return PARPLAN_REFUSED;
    case absl::StatusCode::kOutOfRange:
      return PARPLAN_OUT_OF_RANGE;
    default:
      return PARPLAN_INTERNAL;
  }
}

}  // namespace

int32_t Report(const absl::Status& status, parplan_error* error) {
  const int32_t code = CodeOf(status);
  if (error == nullptr || code == PARPLAN_OK) return code;
  const auto detail = GetErrorDetail(status);
  error->code = code;
  CopyText(detail.has_value() ? std::string(ReasonName(detail->reason)) : "", error->reason,
           sizeof(error->reason));
  CopyText(std::string(status.message()), error->text, sizeof(error->text));
  return code;
}

absl::Status Missing(const char* name) {
  return absl::InvalidArgumentError(absl::StrCat(name, " must not be NULL"));
}

absl::Status CheckSize(size_t size) {
  if (size >= sizeof(size_t)) return absl::OkStatus();
  return absl::InvalidArgumentError("size: set it to sizeof of the struct before the call");
}

absl::Status CheckIndex(const char* name, int64_t index, int64_t count) {
  if (index >= 0 && index < count) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(name, " ", index, ": there are ", count));
}

absl::string_view ViewOf(const parplan_text& text) {
  return text.data == nullptr ? absl::string_view() : absl::string_view(text.data, text.size);
}

}  // namespace parplan::capi
