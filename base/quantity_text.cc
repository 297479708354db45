#include "base/quantity_text.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parplan {
namespace {

// Writes `value`, which is in units of the first of `units`, each 1000 times the one before, in the
// largest of them in which it rounds to 1 or more.
template <size_t kCount>
std::string WithUnit(double value, const char* const (&units)[kCount]) {
  size_t unit = 0;
  while (unit + 1 < kCount && value >= 999.5) {
    value /= 1000.0;
    ++unit;
  }
  return absl::StrCat(ThreeDigits(value), " ", units[unit]);
}

}  // namespace

std::string ThreeDigits(double value) {
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

std::string TimeText(Seconds seconds) {
  static constexpr const char* kUnits[] = {"µs", "ms", "s"};
  if (!seconds.is_finite()) return "–";
  if (seconds.value() <= 0.0) return "0 s";
  if (seconds.value() >= 7200.0) return absl::StrCat(ThreeDigits(seconds.value() / 3600.0), " h");
  return WithUnit(seconds.value() * 1e6, kUnits);
}

std::string SizeText(Bytes bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  if (bytes.count() < 1000) return absl::StrCat(bytes.count(), " B");
  return WithUnit(bytes.as_double() / 1e3, kUnits);
}

}  // namespace parplan
