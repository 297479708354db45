#include "clients/import/shell_expansion.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

// Matching takes the product of both lengths, once for each place of a text.
constexpr size_t kMaxPatternedBytes = 1024;

bool IsPlainChange(absl::string_view text) {
  return text.find_first_of("\\\"'[]$`{}") == text.npos;
}

// Returns whether a pattern with `*` and `?` is all of a text.
bool MatchesWhole(absl::string_view pattern, absl::string_view text) {
  size_t place = 0;
  size_t at = 0;
  size_t star = absl::string_view::npos;
  size_t from = 0;
  while (at < text.size()) {
    if (place < pattern.size() && (pattern[place] == '?' || pattern[place] == text[at]) &&
        pattern[place] != '*') {
      ++place;
      ++at;
    } else if (place < pattern.size() && pattern[place] == '*') {
      star = place++;
      from = at;
    } else if (star != absl::string_view::npos) {
      place = star + 1;
      at = ++from;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(place), pattern.end(),
                     [](char letter) { return letter == '*'; });
}

// Returns the length of the shortest, or the longest, beginning or end of `text` that matches;
// nothing if there is none.
std::optional<size_t> MatchedLength(absl::string_view text, absl::string_view pattern, bool is_end,
                                    bool is_longest) {
  for (size_t i = 0; i <= text.size(); ++i) {
    const size_t length = is_longest ? text.size() - i : i;
    const absl::string_view part =
        is_end ? text.substr(text.size() - length) : text.substr(0, length);
    if (MatchesWhole(pattern, part)) return length;
  }
  return std::nullopt;
}

std::optional<std::string> Replaced(absl::string_view text, absl::string_view change) {
  const bool is_all = absl::ConsumePrefix(&change, "/");
  const bool is_begin = !is_all && absl::ConsumePrefix(&change, "#");
  const bool is_end = !is_all && !is_begin && absl::ConsumePrefix(&change, "%");
  const std::vector<absl::string_view> parts = absl::StrSplit(change, absl::MaxSplits('/', 1));
  const absl::string_view pattern = parts[0];
  const absl::string_view other = parts.size() > 1 ? parts[1] : "";
  if (pattern.empty() || absl::StrContains(other, '&')) return std::nullopt;
  if (is_begin || is_end) {
    const std::optional<size_t> length = MatchedLength(text, pattern, is_end, true);
    if (!length.has_value()) return std::string(text);
    if (is_end) return absl::StrCat(text.substr(0, text.size() - *length), other);
    return absl::StrCat(other, text.substr(*length));
  }
  std::string result;
  size_t place = 0;
  bool is_done = false;
  while (place < text.size()) {
    const std::optional<size_t> length =
        is_done ? std::nullopt : MatchedLength(text.substr(place), pattern, false, true);
    if (!length.has_value() || *length == 0) {
      result += text[place++];
      continue;
    }
    absl::StrAppend(&result, other);
    place += *length;
    is_done = !is_all;
  }
  return result;
}

// Returns the part of `text` that `n` or `n:m` says.
std::optional<std::string> PartOf(absl::string_view text, absl::string_view change) {
  const std::vector<absl::string_view> parts = absl::StrSplit(change, ':');
  size_t begin = 0;
  size_t count = text.size();
  if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &begin) ||
      (parts.size() == 2 && !absl::SimpleAtoi(parts[1], &count))) {
    return std::nullopt;
  }
  return std::string(text.substr(std::min(begin, text.size()), count));
}

}  // namespace

std::optional<std::string> ChangedText(absl::string_view text, absl::string_view change) {
  if (text.size() > kMaxPatternedBytes || change.size() > kMaxPatternedBytes ||
      !IsPlainChange(change)) {
    return std::nullopt;
  }
  if (change == "^^") return absl::AsciiStrToUpper(text);
  if (change == ",,") return absl::AsciiStrToLower(text);
  if (absl::ConsumePrefix(&change, "/")) return Replaced(text, change);
  if (absl::ConsumePrefix(&change, ":")) return PartOf(text, change);
  const bool is_end = absl::StartsWith(change, "%");
  if (!is_end && !absl::StartsWith(change, "#")) return std::nullopt;
  const absl::string_view sign = is_end ? "%" : "#";
  change.remove_prefix(1);
  const bool is_longest = absl::ConsumePrefix(&change, sign);
  const std::optional<size_t> length = MatchedLength(text, change, is_end, is_longest);
  if (!length.has_value()) return std::string(text);
  return std::string(is_end ? text.substr(0, text.size() - *length) : text.substr(*length));
}

}  // namespace parplan
