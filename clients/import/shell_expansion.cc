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

// Longer texts and changes are not known.
constexpr size_t kMaxPatternedBytes = 1024;
// Largest product of the length of a pattern and the square of that of a text.
constexpr int64_t kMaxSteps = int64_t{1} << 22;

bool IsPlainChange(absl::string_view text) {
  return text.find_first_of("\\\"'[]$`{}") == text.npos;
}

// Returns for each length whether the beginning of `text` of that length matches the whole pattern.
// Takes the product of both lengths.
std::vector<bool> MatchingLengths(absl::string_view text, absl::string_view pattern) {
  std::vector<bool> matches(text.size() + 1, false);
  matches[0] = true;
  for (const char letter : pattern) {
    if (letter == '*') {
      for (size_t i = 0; i < text.size(); ++i) matches[i + 1] = matches[i + 1] || matches[i];
      continue;
    }
    for (size_t i = text.size(); i > 0; --i) {
      matches[i] = matches[i - 1] && (letter == '?' || letter == text[i - 1]);
    }
    matches[0] = false;
  }
  return matches;
}

// Returns the length of the shortest, or the longest, beginning or end of `text` that matches;
// nothing if there is none.
std::optional<size_t> MatchedLength(absl::string_view text, absl::string_view pattern, bool is_end,
                                    bool is_longest) {
  const std::string turned_text(text.rbegin(), text.rend());
  const std::string turned_pattern(pattern.rbegin(), pattern.rend());
  const std::vector<bool> matches =
      is_end ? MatchingLengths(turned_text, turned_pattern) : MatchingLengths(text, pattern);
  for (size_t i = 0; i <= text.size(); ++i) {
    const size_t length = is_longest ? text.size() - i : i;
    if (matches[length]) return length;
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
  // A pattern that matches nothing at all replaces an empty text, and nothing within another.
  if (text.empty())
    return MatchedLength(text, pattern, false, true).has_value() ? std::string(other) : "";
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

// Reads digits; a sign, a blank or a zero in front of others is another form.
bool ReadCount(absl::string_view text, size_t* count) {
  const bool is_plain = !text.empty() &&
                        std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
                        (text.size() == 1 || text[0] != '0');
  return is_plain && absl::SimpleAtoi(text, count);
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isascii);
}

// Returns the part of `text` that `n` or `n:m` says.
std::optional<std::string> PartOf(absl::string_view text, absl::string_view change) {
  const std::vector<absl::string_view> parts = absl::StrSplit(change, ':');
  size_t begin = 0;
  size_t count = text.size();
  if (parts.size() > 2 || !ReadCount(parts[0], &begin) ||
      (parts.size() == 2 && !ReadCount(parts[1], &count))) {
    return std::nullopt;
  }
  return std::string(text.substr(std::min(begin, text.size()), count));
}

// Returns where the `${...}` that begins at `place` ends; nothing if it does not.
std::optional<size_t> EndOfUnknown(absl::string_view text, size_t place) {
  int depth = 0;
  for (size_t i = place + 1; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::nullopt;
}

}  // namespace

std::vector<absl::string_view> PartsAtBlanks(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  // Whether expansions that begin may end, so that the whole takes one pass.
  bool may_end = true;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && !absl::StrContains(" \t\n\r", text[i])) {
      if (!may_end || !absl::StartsWith(text.substr(i), "${")) continue;
      const std::optional<size_t> end = EndOfUnknown(text, i);
      may_end = end.has_value();
      i = end.value_or(i);
      continue;
    }
    if (i > begin) parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

bool IsOutputOfCommand(absl::string_view word) {
  return absl::StartsWith(word, "${(") && !absl::StartsWith(word, "${((") &&
         EndOfUnknown(word, 0) == word.size() - 1;
}

std::optional<std::string> ChangedText(absl::string_view text, absl::string_view change,
                                       int64_t* steps_left) {
  if (text.size() > kMaxPatternedBytes || change.size() > kMaxPatternedBytes ||
      !IsPlainChange(change) || !IsAscii(text) || !IsAscii(change)) {
    return std::nullopt;
  }
  const auto length_of_text = static_cast<int64_t>(text.size());
  const int64_t steps =
      static_cast<int64_t>(change.size()) * (length_of_text + 1) * (length_of_text + 1);
  if (steps > std::min(*steps_left, kMaxSteps)) return std::nullopt;
  *steps_left -= steps;
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
