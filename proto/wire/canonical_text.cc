#include "proto/wire/canonical_text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parplan {

std::string IntegerWord(int64_t value) { return absl::StrCat(value); }

std::string NumberWord(double value) {
  // By its definition the text of `%.17g`.
  std::array<char, 32> text;
  const std::to_chars_result end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 17);
  return std::string(text.data(), end.ptr);
}

std::string FlagWord(bool value) { return value ? "1" : "0"; }

std::string StringWord(absl::string_view value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string word = "\"";
  for (const char c : value) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
      word.append("\\x");
      word.push_back(kDigits[byte >> 4]);
      word.push_back(kDigits[byte & 0xf]);
    } else {
      word.push_back(c);
    }
  }
  word.push_back('"');
  return word;
}

std::string CanonicalLine(absl::string_view keyword, std::initializer_list<std::string> words) {
  std::string line(keyword);
  for (const std::string& word : words) absl::StrAppend(&line, " ", word);
  line.push_back('\n');
  return line;
}

std::string SortedLines(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return absl::StrJoin(lines, "");
}

}  // namespace parplan
