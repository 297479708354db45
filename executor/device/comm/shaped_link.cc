#include "executor/device/comm/shaped_link.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

// Bytes are sent in pieces that take this long on the shaped link, and of at least
// `kLeastPieceBytes`. Shorter pieces wake the rank more often than its timer keeps pace with;
// longer ones make the link uneven. Not measured.
constexpr absl::Duration kPiece = absl::Microseconds(400);
constexpr int64_t kLeastPieceBytes = 4096;
// Largest delay that a late sender may make up for: below `kPiece`, so that a rank that slept too
// long does not lose bandwidth, and one that had nothing to send gains none. Not measured.
constexpr absl::Duration kCredit = absl::Microseconds(300);

}  // namespace

void ShapedLink::BeginMessage() {
  link_.BeginMessage();
  if (shape_.latency > absl::ZeroDuration()) next_ = std::max(next_, SteadyNow() + shape_.latency);
}

absl::StatusOr<int64_t> ShapedLink::Write(absl::Span<const char> data) {
  const absl::Duration now = SteadyNow();
  if (now < next_) return 0;
  if (shape_.bytes_per_second <= 0.0) return link_.Write(data);
  const auto piece =
      std::max(kLeastPieceBytes,
               static_cast<int64_t>(shape_.bytes_per_second * absl::ToDoubleSeconds(kPiece)));
  PARPLAN_ASSIGN_OR_RETURN(const int64_t count, link_.Write(data.subspan(0, piece)));
  if (count > 0) {
    next_ = std::max(next_, now - kCredit) +
            absl::Seconds(static_cast<double>(count) / shape_.bytes_per_second);
  }
  return count;
}

absl::Duration ShapedLink::UntilWritable() {
  return std::max(absl::ZeroDuration(), next_ - SteadyNow());
}

}  // namespace parplan
