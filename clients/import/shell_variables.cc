#include "clients/import/shell_variables.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/import/shell_arithmetic.h"
#include "clients/import/shell_expansion.h"

namespace parplan {
namespace {

// Defaults inside of one another; scripts of people have two or three.
constexpr int kMaxNestedDefaults = 16;
// Texts that tests compare; longer ones count as not known.
constexpr size_t kMaxTextBytes = 64 << 10;
// Returns whether a text is the number of an argument of the script, as in `$1`.
bool IsPosition(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

bool IsName(absl::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char letter) { return absl::ascii_isalnum(letter) || letter == '_'; });
}

// Returns whether a shell may make several words of a text outside quotation marks.
bool IsMultiplied(absl::string_view text) { return text.find_first_of("*?[{~") != text.npos; }

bool HasUnquoted(const ShellWord& word) {
  return std::any_of(word.pieces.begin(), word.pieces.end(),
                     [](const ShellPiece& piece) { return !piece.is_quoted; });
}

// Returns a variable as a script writes it.
std::string Shown(const std::string& text) {
  return text.size() == 1 || IsName(text) ? absl::StrCat("$", text) : absl::StrCat("${", text, "}");
}

}  // namespace

absl::Status ShellVariables::Assign(const std::string& name, bool appends, const ShellWord& value) {
  Value words;
  if (value.elements.has_value()) {
    for (const ShellWord& element : *value.elements) {
      // Elements with keys, as of `declare -A`.
      const bool has_key = !element.pieces.empty() && !element.pieces[0].is_variable &&
                           !element.pieces[0].is_quoted &&
                           absl::StartsWith(element.pieces[0].text, "[");
      if (has_key) {
        Forget(name);
        return absl::OkStatus();
      }
      const size_t begin = words.size();
      const absl::Status status = Expand(element, &words);
      if (!status.ok()) return status;
      const bool is_multiplied =
          HasUnquoted(element) && std::any_of(words.begin() + static_cast<std::ptrdiff_t>(begin),
                                              words.end(), IsMultiplied);
      if (is_multiplied) uncounted_.insert(name);
    }
  } else {
    // Values of scalars are not split.
    ShellWord quoted = value;
    for (ShellPiece& piece : quoted.pieces) piece.is_quoted = true;
    const absl::Status status = Expand(quoted, &words);
    if (!status.ok()) return status;
    words = {absl::StrJoin(words, " ")};
  }
  Keep(name);
  std::optional<Value>& target = values_[name];
  if (!appends) {
    target = std::move(words);
    return absl::OkStatus();
  }
  // Appending to what is not known stays unknown; to what was never set, it begins there.
  if (!target.has_value()) {
    if (forgotten_.count(name) > 0 || may_have_others_) return absl::OkStatus();
    target = Value();
  }
  if (value.elements.has_value()) {
    target->insert(target->end(), words.begin(), words.end());
  } else {
    if (target->empty()) target->emplace_back();
    absl::StrAppend(&target->front(), words.front());
  }
  return absl::OkStatus();
}

void ShellVariables::Keep(const std::string& name) {
  if (scopes_.empty() || scopes_.back().count(name) > 0) return;
  scopes_.back()[name] = Save(name);
}

void ShellVariables::CloseScope() {
  if (scopes_.empty()) return;
  for (auto& [name, value] : scopes_.back()) {
    if (value.has_value()) {
      values_[name] = std::move(*value);
    } else {
      values_.erase(name);
    }
  }
  scopes_.pop_back();
}

void ShellVariables::Unset(const std::string& name) {
  Keep(name);
  values_.erase(name);
}

bool ShellVariables::IsLeftOut(absl::string_view word) const {
  if (!absl::ConsumePrefix(&word, "$")) return false;
  if (absl::ConsumePrefix(&word, "{")) {
    const bool is_array = absl::ConsumeSuffix(&word, "[@]}") || absl::ConsumeSuffix(&word, "[*]}");
    if (!is_array) return false;
  }
  const std::string name(word);
  return left_out_.count(name) > 0 && values_.count(name) == 0 && forgotten_.count(name) == 0 &&
         !may_have_others_;
}

void ShellVariables::Forget(const std::string& name) {
  Keep(name);
  values_[name] = std::nullopt;
  forgotten_.insert(name);
}

void ShellVariables::ForgetAll() {
  may_have_others_ = true;
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) {
    if (name != "@" && value.has_value()) names.push_back(name);
  }
  for (const std::string& name : names) Forget(name);
}

ShellVariables::Saved ShellVariables::Save(const std::string& name) {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  size_t bytes = 0;
  if (found->second.has_value()) {
    for (const std::string& word : *found->second) bytes += word.size() + 1;
  }
  bytes_left_ -= std::min(bytes_left_, bytes);
  return found->second;
}

void ShellVariables::Restore(const std::string& name, Saved saved) {
  Keep(name);
  if (saved.has_value()) {
    values_[name] = std::move(*saved);
  } else {
    values_.erase(name);
  }
}

const std::optional<ShellVariables::Value>* ShellVariables::Find(const std::string& name) {
  position_ = std::nullopt;
  if (!IsPosition(name)) {
    const auto found = values_.find(name);
    if (found != values_.end()) return &found->second;
    return may_have_others_ ? &position_ : nullptr;
  }
  const auto all = values_.find("@");
  if (has_positions_ && all == values_.end()) return nullptr;
  size_t place = 0;
  const bool is_known = has_positions_ && all->second.has_value() && IsWholeNumber(name) &&
                        absl::SimpleAtoi(name, &place) && place > 0;
  if (!is_known) return &position_;
  // One that is not given was never set.
  if (place > all->second->size()) return nullptr;
  position_ = Value{(*all->second)[place - 1]};
  return &position_;
}

bool ShellVariables::SplitsAtBlanks(const std::string& text) const {
  const auto found = values_.find("IFS");
  if (found == values_.end()) return true;
  if (!found->second.has_value()) return false;
  const std::string letters = absl::StrJoin(*found->second, "");
  return !absl::StrContains(letters, '$') &&
         text.find_first_of(absl::StrCat(letters, " \t\n\r")) == std::string::npos;
}

std::optional<ShellVariables::Value> ShellVariables::ValueOf(const std::string& text) {
  absl::string_view name = text;
  if (absl::ConsumePrefix(&name, "((") && absl::ConsumeSuffix(&name, "))")) {
    const std::optional<int64_t> number =
        ComputeShellArithmetic(name, [this](const std::string& variable) -> std::optional<int64_t> {
          const std::optional<Value> value = ValueOf(variable);
          int64_t number = 0;
          if (!value.has_value() || value->size() != 1 || !IsWholeNumber(value->front()) ||
              !absl::SimpleAtoi(value->front(), &number)) {
            return std::nullopt;
          }
          return number;
        });
    if (!number.has_value()) return std::nullopt;
    return Value{absl::StrCat(*number)};
  }
  if (IsPosition(name)) {
    const std::optional<Value>* const position = Find(text);
    if (position != nullptr) return *position;
    // Behind `set --` the others are empty.
    return values_.count("@") > 0 ? std::optional(Value{""}) : std::nullopt;
  }
  if (name == "@" || name == "*") {
    const auto all = values_.find("@");
    return has_positions_ && all != values_.end() ? all->second : std::nullopt;
  }
  name = text;
  const bool is_whole = absl::ConsumeSuffix(&name, "[@]") || absl::ConsumeSuffix(&name, "[*]");
  if (IsName(name)) {
    const auto found = values_.find(std::string(name));
    if (found == values_.end() || !found->second.has_value()) return std::nullopt;
    // `$NAME` of an array is its first element.
    if (is_whole) return found->second;
    if (uncounted_.count(std::string(name)) > 0) return std::nullopt;
    if (found->second->size() <= 1) return found->second;
    return Value{found->second->front()};
  }
  for (const char* const sign : {":-", ":=", "-", "="}) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(sign, 1));
    if (parts.size() == 2 && (IsName(parts[0]) || IsPosition(parts[0])))
      return ValueOrDefault(parts[0], sign[0] == ':', parts[1]);
  }
  return ValueOfForm(text);
}

std::optional<ShellVariables::Value> ShellVariables::ValueOfForm(absl::string_view text) {
  const bool is_length = text.size() > 1 && absl::ConsumePrefix(&text, "#");
  const bool is_indirect = !is_length && absl::ConsumePrefix(&text, "!");
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isalnum(text[end]) || text[end] == '_')) ++end;
  const std::string name(text.substr(0, end));
  text.remove_prefix(end);
  const auto found = values_.find(name);
  const bool is_set = IsName(name) && found != values_.end() && found->second.has_value();
  if (!is_set || uncounted_.count(name) > 0) return std::nullopt;
  const Value& value = *found->second;
  const auto is_known = [](const std::string& one) { return !absl::StrContains(one, '$'); };
  if (!std::all_of(value.begin(), value.end(), is_known)) return std::nullopt;
  const std::string first = value.empty() ? "" : value.front();
  if (is_length) {
    if (text == "[@]" || text == "[*]") return Value{absl::StrCat(value.size())};
    // The locale decides how many bytes are a letter.
    const bool is_ascii = std::all_of(first.begin(), first.end(), absl::ascii_isascii);
    if (!text.empty() || !is_ascii) return std::nullopt;
    return Value{absl::StrCat(first.size())};
  }
  if (is_indirect) {
    if (!text.empty() || !IsName(first)) return std::nullopt;
    return ValueOf(first);
  }
  if (!absl::ConsumePrefix(&text, "[")) {
    const std::optional<std::string> changed = ChangedText(first, text, &steps_left_);
    return changed.has_value() ? std::optional(Value{*changed}) : std::nullopt;
  }
  if (!absl::ConsumeSuffix(&text, "]")) return std::nullopt;
  const std::optional<Value> index = ValueOf(absl::StrCat("((", text, "))"));
  int64_t place = 0;
  if (!index.has_value() || !absl::SimpleAtoi(index->front(), &place)) return std::nullopt;
  if (place < 0) place += static_cast<int64_t>(value.size());
  if (place < 0) return std::nullopt;
  if (place >= static_cast<int64_t>(value.size())) return Value{""};
  return Value{value[place]};
}

std::optional<ShellVariables::Value> ShellVariables::ValueOrDefault(const std::string& name,
                                                                    bool is_for_empty,
                                                                    absl::string_view text) {
  const std::optional<Value>* const found = Find(name);
  if (found != nullptr) {
    if (!found->has_value() || uncounted_.count(name) > 0) return std::nullopt;
    const bool is_taken = !(*found)->empty() && !(is_for_empty && (*found)->front().empty());
    if (is_taken) return Value{(*found)->front()};
  }
  if (depth_ >= kMaxNestedDefaults) return std::nullopt;
  const std::optional<std::vector<ShellCommand>> commands = SplitShellText(text);
  if (!commands.has_value() || commands->size() > 1) return std::nullopt;
  Value words;
  ++depth_;
  for (const ShellCommand& command : *commands) {
    for (const ShellWord& word : command.words) {
      if (!Expand(word, &words).ok()) bytes_left_ = 0;
    }
  }
  --depth_;
  return Value{absl::StrJoin(words, " ")};
}

std::optional<std::string> ShellVariables::TextOf(const ShellWord& word) {
  if (word.elements.has_value()) return std::nullopt;
  std::string text;
  for (const ShellPiece& piece : word.pieces) {
    if (!piece.is_variable) {
      text += piece.text;
      continue;
    }
    const std::optional<Value> value = ValueOf(piece.text);
    if (value.has_value()) {
      text += absl::StrJoin(*value, " ");
      // A value that was not known when it was assigned has a `$`.
      if (absl::StrContains(text, '$')) return std::nullopt;
    } else if ((IsName(piece.text) || IsPosition(piece.text)) && Find(piece.text) == nullptr) {
      taken_as_empty_.insert(piece.text);
    } else {
      return std::nullopt;
    }
    if (text.size() > kMaxTextBytes) return std::nullopt;
  }
  return text;
}

void ShellVariables::AddText(absl::string_view text, bool* is_open,
                             std::vector<std::string>* words) {
  if (!*is_open) words->emplace_back();
  *is_open = true;
  const size_t taken = std::min(bytes_left_, text.size() + 1);
  bytes_left_ -= taken;
  if (taken == text.size() + 1) absl::StrAppend(&words->back(), text);
}

void ShellVariables::Append(const ShellPiece& piece, bool* is_open,
                            std::vector<std::string>* words) {
  if (!piece.is_variable) return AddText(piece.text, is_open, words);
  std::optional<Value> value = ValueOf(piece.text);
  if (piece.is_quoted && value.has_value() && absl::StrContains(piece.text, '*')) {
    // `"${NAME[*]}"` is one word, with the first letter of IFS between the elements.
    const bool is_joined = piece.text == "*" || absl::EndsWith(piece.text, "[*]");
    if (is_joined && value->size() > 1 && values_.count("IFS") > 0) value = std::nullopt;
    if (is_joined && value.has_value()) value = Value{absl::StrJoin(*value, " ")};
  }
  const bool is_split = !piece.is_quoted && value.has_value();
  if (is_split && !std::all_of(value->begin(), value->end(),
                               [this](const std::string& text) { return SplitsAtBlanks(text); })) {
    value = std::nullopt;
  }
  if (!value.has_value()) {
    const bool is_replaced = has_set_positions_ && (piece.text == "@" || piece.text == "*");
    return AddText(is_replaced ? "${@}" : Shown(piece.text), is_open, words);
  }
  for (size_t i = 0; i < value->size() && bytes_left_ > 0; ++i) {
    if (i > 0) *is_open = false;
    const std::string& text = (*value)[i];
    --bytes_left_;
    if (piece.is_quoted) {
      AddText(text, is_open, words);
      continue;
    }
    bool splits = !text.empty() && absl::ascii_isspace(text.front());
    for (const absl::string_view part : PartsAtBlanks(text)) {
      if (splits) *is_open = false;
      AddText(part, is_open, words);
      splits = true;
    }
    if (!text.empty() && absl::ascii_isspace(text.back())) *is_open = false;
  }
}

absl::Status ShellVariables::Expand(const ShellWord& word, std::vector<std::string>* words) {
  bool is_open = false;
  for (size_t i = 0; i < word.pieces.size(); ++i) {
    const ShellPiece& piece = word.pieces[i];
    // The quotation marks of `"${NAME[@]}"` are no word if the array is empty.
    const bool is_before_array =
        !piece.is_variable && piece.text.empty() && i + 1 < word.pieces.size() &&
        word.pieces[i + 1].is_variable &&
        (word.pieces[i + 1].text == "@" || absl::EndsWith(word.pieces[i + 1].text, "[@]"));
    if (!is_before_array) Append(piece, &is_open, words);
  }
  if (bytes_left_ > 0) return absl::OkStatus();
  return absl::ResourceExhaustedError("expands to too much text");
}

}  // namespace parplan
