#include "server/core/quota_error.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {

absl::Status QuotaError(const ExceededQuota& exceeded, absl::string_view advice) {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, Reason::kQuotaExceeded,
                absl::StrCat("the quota ", exceeded.quota, " allows `", exceeded.holder, "` ",
                             exceeded.limit, ", and this call would make it ", exceeded.value, "; ",
                             advice),
                {{"quota", exceeded.quota},
                 {"holder", exceeded.holder},
                 {"limit", absl::StrCat(exceeded.limit)},
                 {"value", absl::StrCat(exceeded.value)}}),
      exceeded.retry);
}

}  // namespace parplan
