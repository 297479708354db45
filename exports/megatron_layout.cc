#include "exports/megatron_layout.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace parplan {
namespace {

absl::Status RefuseLayout(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

// Reads `*n` at `text[*place]` and moves `place` behind it; nothing if there is none.
std::optional<size_t> ReadRepetition(absl::string_view text, size_t* place) {
  size_t end = *place;
  if (end >= text.size() || text[end] != '*') return std::nullopt;
  const size_t begin = ++end;
  while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
  if (end == begin) return std::nullopt;
  uint64_t count = 0;
  // A number too long for 64 bits is above every limit.
  if (!absl::SimpleAtoi(text.substr(begin, end - begin), &count)) count = kMaxLayoutSize + 1;
  *place = end;
  return static_cast<size_t>(std::min<uint64_t>(count, kMaxLayoutSize + 1));
}

// Appends `part` `count` times; false if `text` would be longer than kMaxLayoutSize.
bool AppendRepeated(absl::string_view part, size_t count, std::string* text) {
  if (!part.empty() && count > (kMaxLayoutSize - text->size()) / part.size()) return false;
  for (size_t i = 0; i < count; ++i) text->append(part.data(), part.size());
  return true;
}

std::optional<std::string> UnrollParentheses(absl::string_view text) {
  std::string unrolled;
  for (size_t place = 0; place < text.size();) {
    if (text[place] == '(') {
      const size_t close = text.find(')', place);
      if (close != absl::string_view::npos && close > place + 1) {
        size_t behind = close + 1;
        const std::optional<size_t> count = ReadRepetition(text, &behind);
        if (count.has_value()) {
          const absl::string_view inner = text.substr(place + 1, close - place - 1);
          if (!AppendRepeated(inner, *count, &unrolled)) return std::nullopt;
          place = behind;
          continue;
        }
      }
    }
    if (!AppendRepeated(text.substr(place, 1), 1, &unrolled)) return std::nullopt;
    ++place;
  }
  return unrolled;
}

std::optional<std::string> UnrollLetters(absl::string_view text) {
  std::string unrolled;
  for (size_t place = 0; place < text.size();) {
    size_t behind = place + 1;
    const size_t count = ReadRepetition(text, &behind).value_or(1);
    if (!AppendRepeated(text.substr(place, 1), count, &unrolled)) return std::nullopt;
    place = behind;
  }
  return unrolled;
}

// Returns a stage with runs of a letter written as `t*16`.
std::string FormatStage(absl::string_view stage) {
  std::string text;
  for (size_t begin = 0; begin < stage.size();) {
    size_t end = begin;
    while (end < stage.size() && stage[end] == stage[begin]) ++end;
    absl::StrAppend(&text, stage.substr(begin, 1));
    if (end - begin > 1) absl::StrAppend(&text, "*", end - begin);
    begin = end;
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseMegatronLayout(absl::string_view text,
                                                             absl::string_view field) {
  if (text.size() > kMaxLayoutSize) {
    return RefuseLayout(field, absl::StrCat("must not exceed ", kMaxLayoutSize, " characters"));
  }
  std::string plain;
  for (const char letter : text) {
    if (letter != ',') plain.push_back(letter);
  }
  std::optional<std::string> unrolled = UnrollParentheses(plain);
  if (unrolled.has_value()) unrolled = UnrollLetters(*unrolled);
  if (!unrolled.has_value()) {
    return RefuseLayout(field, absl::StrCat("must have at most ", kMaxLayoutSize,
                                            " layers and stages with repetitions written out"));
  }
  for (const char letter : *unrolled) {
    if (letter == 'E' || letter == 't' || letter == 'm' || letter == 'L' || letter == '|') continue;
    return RefuseLayout(
        field, absl::StrCat("has `", absl::CEscape(std::string(1, letter)),
                            "`; layers are E, t, m and L, `|` separates stages, and `x*n` or "
                            "`(...)*n`, which do not nest, repeat them"));
  }
  return std::vector<std::string>(absl::StrSplit(*unrolled, '|'));
}

std::string FormatMegatronLayout(const std::vector<std::string>& stages) {
  std::string text;
  const size_t count = stages.size();
  for (size_t i = 0; i < count;) {
    size_t end = i;
    // The last stage has no `|` behind it, so it is in no run.
    while (end + 1 < count && stages[end] == stages[i]) ++end;
    if (end > i + 2) {
      absl::StrAppend(&text, "(", FormatStage(stages[i]), "|)*", end - i);
      i = end;
      // A digit must not follow, and no stage begins with one.
      continue;
    }
    absl::StrAppend(&text, FormatStage(stages[i]), i + 1 < count ? "|" : "");
    ++i;
  }
  return text;
}

}  // namespace parplan
