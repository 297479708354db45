#include "base/unreachable.h"

#include "absl/strings/cord.h"

namespace parplan {
namespace {

constexpr char kUnreachableUrl[] = "parplan/unreachable";

}  // namespace

absl::Status MarkUnreachable(absl::Status status) {
  status.SetPayload(kUnreachableUrl, absl::Cord());
  return status;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachableUrl).has_value();
}

}  // namespace parplan
