#include "clients/kubernetes/plan_hope.h"

#include <optional>

#include "base/error.h"

namespace parplan::sidecar {

bool MayStillCome(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (detail.has_value() && detail->reason == Reason::kSearchOutOfMemory) return false;
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsResourceExhausted(status) ||
         absl::IsNotFound(status) || absl::IsUnauthenticated(status);
}

}  // namespace parplan::sidecar
