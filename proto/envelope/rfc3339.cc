#include "proto/envelope/rfc3339.h"

#include <cstdint>

#include "absl/strings/ascii.h"

namespace parplan {
namespace {

// 0001-01-01T00:00:00Z and 10000-01-01T00:00:00Z.
constexpr int64_t kFirstSecond = -62135596800;
constexpr int64_t kEndSecond = 253402300800;

}  // namespace

bool IsRfc3339Time(absl::Time time) {
  return time >= absl::FromUnixSeconds(kFirstSecond) && time < absl::FromUnixSeconds(kEndSecond);
}

std::string FormatRfc3339(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

std::optional<absl::Time> ParseRfc3339(absl::string_view text) {
  // The shortest form is `2026-01-31T12:00:00Z`.
  if (text.size() < 20 || !absl::ascii_isdigit(text.front()) || text[4] != '-') return std::nullopt;
  for (const char c : text) {
    if (absl::ascii_isspace(c)) return std::nullopt;
  }
  absl::Time time;
  std::string problem;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &problem)) return std::nullopt;
  if (!IsRfc3339Time(time)) return std::nullopt;
  return time;
}

}  // namespace parplan
