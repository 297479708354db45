// Matches the error of a refused call: EXPECT_THAT(result, IsRefused(code, Reason::kDraining)).

#ifndef PARPLAN_TESTS_SERVER_RPC_REASON_MATCHER_H_
#define PARPLAN_TESTS_SERVER_RPC_REASON_MATCHER_H_

#include <gmock/gmock.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {

MATCHER_P2(IsRefused, code, reason, "is an error with that code and reason") {
  const absl::Status& status = status_matchers_internal::StatusOf(arg);
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  *result_listener << "whose status is " << status.ToString() << " with reason "
                   << (detail.has_value() ? std::string(ReasonName(detail->reason)) : "none");
  return status.code() == code && detail.has_value() && detail->reason == reason;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_RPC_REASON_MATCHER_H_
