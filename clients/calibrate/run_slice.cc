#include "clients/calibrate/run_slice.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "proto/wire/digest.h"

namespace parplan::planctl {
namespace {

// The number that hexadecimal `digits` are, modulo `modulus`.
int Modulo(const std::string& digits, int modulus) {
  int remainder = 0;
  for (char digit : digits) {
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    remainder = (remainder * 16 + value) % modulus;
  }
  return remainder;
}

}  // namespace

absl::StatusOr<RunSlice> RunSlice::Parse(absl::string_view text, absl::string_view field) {
  RunSlice slice;
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (trimmed == "none") return slice;
  const std::vector<std::string> parts = absl::StrSplit(trimmed, absl::MaxSplits(':', 1));
  if (parts.size() == 2 && !parts[0].empty()) {
    slice.source_ = parts[0];
    const std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(parts[1]), ' ', absl::SkipEmpty());
    if (words.size() == 1 && words[0] == "all") return slice;
    if (words.size() == 5 && words[0] == "sha256(id)" && words[1] == "%" && words[3] == "==" &&
        absl::SimpleAtoi(words[2], &slice.modulus_) &&
        absl::SimpleAtoi(words[4], &slice.remainder_) && slice.modulus_ >= 2 &&
        slice.modulus_ <= 1000 && slice.remainder_ >= 0 && slice.remainder_ < slice.modulus_) {
      slice.rule_ = absl::StrCat("sha256(id) % ", slice.modulus_, " == ", slice.remainder_);
      return slice;
    }
  }
  return FieldError(Reason::kSpecInvalid, field,
                    "write `SOURCE: sha256(id) % MODULUS == REMAINDER`, `SOURCE: all` or `none`");
}

bool RunSlice::Holds(absl::string_view source, absl::string_view id) const {
  if (source_.empty() || source != absl::string_view(source_)) return false;
  return modulus_ == 1 || Modulo(Sha256Hex(id), modulus_) == remainder_;
}

}  // namespace parplan::planctl
