#include "clients/calibrate/run_slice.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
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
  if (absl::StripAsciiWhitespace(text) == "none") return slice;
  const absl::Status refusal = FieldError(
      Reason::kSpecInvalid, field,
      "write `SOURCE: sha256(id) % MODULUS == REMAINDER`, `SOURCE: all`, several of these with "
      "semicolons between them, or `none`");
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    const std::vector<std::string> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits(':', 1));
    absl::string_view source = absl::StripAsciiWhitespace(parts[0]);
    if (parts.size() != 2 || source.empty()) return refusal;
    const absl::string_view written = source;
    Rule rule;
    rule.is_prefix = absl::ConsumeSuffix(&source, "*");
    rule.source = std::string(source);
    const std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(parts[1]), ' ', absl::SkipEmpty());
    const bool is_all = words.size() == 1 && words[0] == "all";
    const bool is_hash = words.size() == 5 && words[0] == "sha256(id)" && words[1] == "%" &&
                         words[3] == "==" && absl::SimpleAtoi(words[2], &rule.modulus) &&
                         absl::SimpleAtoi(words[4], &rule.remainder) && rule.modulus >= 2 &&
                         rule.modulus <= 1000 && rule.remainder >= 0 &&
                         rule.remainder < rule.modulus;
    if (!is_all && !is_hash) return refusal;
    for (const Rule& earlier : slice.rules_) {
      if ((rule.is_prefix && absl::StartsWith(earlier.source, rule.source)) ||
          (earlier.is_prefix && absl::StartsWith(rule.source, earlier.source)) ||
          rule.source == earlier.source) {
        return FieldError(
            Reason::kSpecInvalid, field,
            absl::StrCat("has two rules about `", written, "`; write one rule for each source"));
      }
    }
    slice.rules_.push_back(std::move(rule));
  }
  return slice;
}

const RunSlice::Rule* RunSlice::Find(absl::string_view source) const {
  for (const Rule& rule : rules_) {
    if (rule.is_prefix ? absl::StartsWith(source, rule.source)
                       : source == absl::string_view(rule.source)) {
      return &rule;
    }
  }
  return nullptr;
}

bool RunSlice::Holds(absl::string_view source, absl::string_view id) const {
  const Rule* rule = Find(source);
  if (rule == nullptr) return false;
  return rule->modulus == 1 || Modulo(Sha256Hex(id), rule->modulus) == rule->remainder;
}

std::string RunSlice::RuleOf(absl::string_view source) const {
  const Rule* rule = Find(source);
  if (rule == nullptr || rule->modulus == 1) return "";
  return absl::StrCat("sha256(id) % ", rule->modulus, " == ", rule->remainder);
}

}  // namespace parplan::planctl
