#include "clients/slurm/refusal.h"

#include <optional>

#include "base/error.h"

namespace parplan::slurm {

bool IsRefusal(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return false;
  switch (detail->reason) {
    case Reason::kSpecInvalid:
    case Reason::kNoFeasiblePlan:
    case Reason::kResourceNotFound:
    case Reason::kPlanExpired:
    case Reason::kAudienceMismatch:
    case Reason::kTopologyMismatch:
    case Reason::kSearchOutOfMemory:
      return true;
    default:
      return false;
  }
}

bool MayPass(const absl::Status& status) {
  if (IsRefusal(status)) return false;
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status);
}

}  // namespace parplan::slurm
