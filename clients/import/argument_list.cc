#include "clients/import/argument_list.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/import/unread_names.h"

namespace parplan {
namespace {

absl::Status ArgumentFault(absl::string_view file_name, absl::string_view name,
                           absl::string_view rule) {
  return ImportError(Reason::kSpecInvalid, file_name, name, rule);
}

// Returns what to add to the fault of a value which holds a variable that the file leaves open.
std::string IfNotSet(absl::string_view value) {
  return absl::StrContains(value, '$')
             ? ", which the file does not set; write the value in its place"
             : "";
}

// Splits a text into words as a shell does; nothing if a quotation is open at its end.
std::optional<std::vector<std::string>> SplitWords(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quote != '\0') {
      if (letter == quote) {
        quote = '\0';
      } else {
        word.push_back(letter);
      }
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
      has_word = true;
    } else if (letter == '\\' && i + 1 < text.size()) {
      ++i;
      // A backslash at the end of a line joins it with the next one.
      if (text[i] == '\n') continue;
      word.push_back(text[i]);
      has_word = true;
    } else if (absl::ascii_isspace(letter)) {
      if (has_word) words.push_back(std::exchange(word, ""));
      has_word = false;
    } else if (letter == '#' && !has_word) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else {
      word.push_back(letter);
      has_word = true;
    }
  }
  if (quote != '\0') return std::nullopt;
  if (has_word) words.push_back(word);
  return words;
}

}  // namespace

absl::StatusOr<ArgumentList> ArgumentList::Read(const NamedText& file,
                                                absl::Span<const ArgumentRule> rules) {
  if (file.text.size() > kMaxImportBytes) {
    return ArgumentFault(file.name, "",
                         absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  const std::optional<std::vector<std::string>> words = SplitWords(file.text);
  if (!words.has_value()) return ArgumentFault(file.name, "", "ends inside a quotation");
  return FromWords(file.name, *words, rules);
}

absl::StatusOr<ArgumentList> ArgumentList::FromWords(absl::string_view file_name,
                                                     absl::Span<const std::string> words,
                                                     absl::Span<const ArgumentRule> rules) {
  ArgumentList list;
  list.file_name_ = std::string(file_name);
  std::set<std::string> unknown;
  std::set<std::string> ignored;
  std::set<std::string> replaced;
  for (size_t i = 0; i < words.size();) {
    const std::string& word = words[i++];
    if (!absl::StartsWith(word, "--") || word.size() == 2) {
      return ArgumentFault(file_name, "",
                           absl::StrCat("has `", word, "` where an argument `--name` must be"));
    }
    const size_t equals = word.find('=');
    const std::string shown = word.substr(0, equals);
    const std::string name = shown.substr(2);
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
    while (i < words.size() && !absl::StartsWith(words[i], "--")) {
      values.push_back(words[i++]);
    }
    const auto* const rule =
        std::find_if(rules.begin(), rules.end(),
                     [&name](const ArgumentRule& candidate) { return candidate.name == name; });
    if (rule == rules.end()) {
      unknown.insert(shown);
      continue;
    }
    if (rule->kind == ArgumentKind::kIgnored) {
      ignored.insert(shown);
      continue;
    }
    if (rule->kind == ArgumentKind::kRefused) {
      return ArgumentFault(file_name, shown, rule->reason);
    }
    if (rule->kind == ArgumentKind::kSwitch && !values.empty()) {
      return ArgumentFault(
          file_name, shown,
          absl::StrCat("takes no value, and has `", values[0], "`", IfNotSet(values[0])));
    }
    if (rule->kind == ArgumentKind::kTexts && values.size() > 1) {
      values = {absl::StrJoin(values, " ")};
    }
    if (rule->kind != ArgumentKind::kSwitch && values.size() != 1) {
      return ArgumentFault(file_name, shown,
                           absl::StrCat("takes one value, and has ", values.size()));
    }
    if (rule->kind == ArgumentKind::kCount) {
      int count = 0;
      if (!absl::SimpleAtoi(values[0], &count) || count < 1 || count > kMaxImportCount) {
        return ArgumentFault(file_name, shown,
                             absl::StrCat("must be a whole number from 1 to ", kMaxImportCount,
                                          ", and is `", values[0], "`", IfNotSet(values[0])));
      }
      values[0] = absl::StrCat(count);
    }
    if (!values.empty() && absl::StrContains(values[0], '$')) {
      return ArgumentFault(file_name, shown,
                           absl::StrCat("is `", values[0], "`, which the file does not set"));
    }
    const std::string value = values.empty() ? "" : values[0];
    const auto [place, is_first] = list.values_.insert({name, value});
    if (!is_first && place->second != value) {
      replaced.insert(shown);
      place->second = value;
    }
  }
  if (!unknown.empty()) {
    return RefuseUnread(file_name, "arguments", absl::StrJoin(unknown, ", "));
  }
  list.ignored_ = absl::StrJoin(ignored, ", ");
  list.replaced_ = absl::StrJoin(replaced, ", ");
  return list;
}

int ArgumentList::Count(absl::string_view name, int fallback) const {
  const auto found = values_.find(std::string(name));
  int count = fallback;
  if (found != values_.end()) (void)absl::SimpleAtoi(found->second, &count);
  return count;
}

std::string ArgumentList::Text(absl::string_view name, absl::string_view fallback) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? std::string(fallback) : found->second;
}

std::string ArgumentList::Field(absl::string_view name) const {
  return absl::StrCat(file_name_, ": --", name);
}

absl::Status ArgumentList::Fault(absl::string_view name, absl::string_view rule) const {
  return ArgumentFault(file_name_, absl::StrCat("--", name), rule);
}

}  // namespace parplan
