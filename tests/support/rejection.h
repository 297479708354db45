// The field a status names, for tests of rules.

#ifndef PARPLAN_TESTS_SUPPORT_REJECTION_H_
#define PARPLAN_TESTS_SUPPORT_REJECTION_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {

// "REASON field" of a refused value, for example
// `SPEC_INVALID model.layer_runs[0].layer_count`; what is wrong otherwise.
inline std::string Rejection(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return absl::StrCat("no detail: ", status.ToString());
  const auto field = detail->metadata.find("field");
  return absl::StrCat(ReasonName(detail->reason), " ",
                      field == detail->metadata.end() ? "(no field)" : field->second);
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_REJECTION_H_
