#include "clients/import/shell_setters.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

bool IsNamedByVariable(const ShellWord& word) {
  return std::any_of(word.pieces.begin(), word.pieces.end(),
                     [](const ShellPiece& piece) { return piece.is_variable; }) &&
         (word.pieces[0].is_variable || word.pieces[0].text.empty());
}

// Returns whether a value has the text of an argument `--name`.
bool HoldsArguments(const ShellWord& value) {
  const bool has_text =
      std::any_of(value.pieces.begin(), value.pieces.end(), [](const ShellPiece& piece) {
        return !piece.is_variable && absl::StrContains(piece.text, "--");
      });
  if (has_text || !value.elements.has_value()) return has_text;
  return std::any_of(value.elements->begin(), value.elements->end(), HoldsArguments);
}

// Returns whether a command of the shell sets a variable whose name is the value of another.
bool SetsNameBehindName(absl::string_view first, const std::vector<ShellWord>& words) {
  if (first != "read" && first != "unset" && first != "let" && first != "printf") return false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string before = PlainText(words[i - 1]).value_or("");
    if (first == "printf" && before != "-v") continue;
    // Its prompt, and other arguments of options.
    const bool is_argument = first == "read" && before.size() > 1 && before[0] == '-' &&
                             absl::StrContains("pdtnNui", before.back());
    if (!is_argument && IsNamedByVariable(words[i])) return true;
  }
  return false;
}

}  // namespace

absl::Status ShellSetters::Assign(const Assignment& assignment, ShellRun run) {
  if (run == ShellRun::kNo) {
    if (HoldsArguments(assignment.value)) variables_.NoteLeftOut(assignment.name);
    return absl::OkStatus();
  }
  if (references_.count(assignment.name) > 0) variables_.ForgetAll();
  if (run == ShellRun::kMaybe) {
    variables_.Forget(assignment.name);
    return absl::OkStatus();
  }
  if (const auto declared = declared_.find(assignment.name); declared != declared_.end()) {
    const std::optional<std::string> text = declared->second && !assignment.appends
                                                ? variables_.TextOf(assignment.value)
                                                : std::nullopt;
    if (!text.has_value() || !IsWholeNumber(*text)) {
      variables_.Forget(assignment.name);
      return absl::OkStatus();
    }
  }
  return variables_.Assign(assignment.name, assignment.appends, assignment.value);
}

absl::Status ShellSetters::AssignAll(const std::vector<Assignment>& assignments, ShellRun run) {
  for (const Assignment& assignment : assignments) {
    PARPLAN_RETURN_IF_ERROR(Assign(assignment, run));
  }
  return absl::OkStatus();
}

absl::Status ShellSetters::ReadDeclaration(const std::vector<ShellWord>& words, bool is_local,
                                           ShellRun run) {
  if (run == ShellRun::kNo) return absl::OkStatus();
  const bool is_of_numbers = !words.empty() && PlainText(words.front()) == "-i";
  bool changes_values = false;
  bool has_options = false;
  bool names_names = false;
  for (const ShellWord& word : words) {
    const std::string plain = PlainText(word).value_or("");
    if (absl::StartsWith(plain, "-") || absl::StartsWith(plain, "+")) {
      has_options = true;
      // Arrays with keys, numbers, other letters, and names of names.
      changes_values = changes_values || plain.find_first_of("Ailucn") != std::string::npos;
      names_names = names_names || absl::StrContains(plain, 'n');
      continue;
    }
    std::optional<Assignment> assignment = AssignmentOf(word);
    if (!assignment.has_value()) assignment = QuotedAssignmentOf(word);
    const std::optional<std::string> element = ElementNameOf(word);
    if (!assignment.has_value() && IsNamedByVariable(word)) {
      // The value of the variable says what is set.
      variables_.ForgetAll();
      continue;
    }
    const std::string name = assignment.has_value() ? assignment->name : element.value_or(plain);
    if (changes_values) declared_[name] = declared_.count(name) == 0 && is_of_numbers;
    if (names_names) {
      references_.insert(name);
      variables_.ForgetAll();
    }
    if (!assignment.has_value()) {
      if (is_local && run == ShellRun::kYes && !element.has_value()) variables_.Unset(name);
      if (element.has_value() || (changes_values && !is_of_numbers) ||
          (is_local && run == ShellRun::kMaybe)) {
        variables_.Forget(name);
      }
      continue;
    }
    const std::optional<std::string> text =
        is_of_numbers ? variables_.TextOf(assignment->value) : std::nullopt;
    const bool is_number = text.has_value() && IsWholeNumber(*text) && !assignment->appends;
    if (is_number || !has_options) {
      PARPLAN_RETURN_IF_ERROR(Assign(*assignment, run));
    } else {
      variables_.Forget(assignment->name);
    }
  }
  return absl::OkStatus();
}

absl::Status ShellSetters::SetDefaults(const std::vector<ShellWord>& words, ShellRun run) {
  if (words.empty() || PlainText(words.front()) != ":") return absl::OkStatus();
  for (const ShellWord& word : words) {
    for (const ShellPiece& piece : word.pieces) {
      const size_t sign = piece.is_variable ? piece.text.find('=') : std::string::npos;
      if (sign == std::string::npos) continue;
      absl::string_view name = absl::string_view(piece.text).substr(0, sign);
      absl::ConsumeSuffix(&name, ":");
      ShellWord assigned;
      assigned.pieces = {{.text = absl::StrCat(name, "=")}, piece};
      if (const std::optional<Assignment> assignment = AssignmentOf(assigned)) {
        PARPLAN_RETURN_IF_ERROR(Assign(*assignment, run));
      }
    }
  }
  return absl::OkStatus();
}

void ShellSetters::ReadBuiltin(const std::vector<ShellWord>& words, ShellRun run) {
  if (run == ShellRun::kNo) return;
  const std::string first = words.empty() ? "" : PlainText(words[0]).value_or("");
  ReadPositions(first, words, run);
  if (SetsNameBehindName(first, words)) variables_.ForgetAll();
  // `unset -f` and `unset A[1]` leave the variable.
  const bool is_plain = std::all_of(words.begin(), words.end(), [](const ShellWord& word) {
    const std::optional<std::string> text = PlainText(word);
    return text.has_value() && text->find_first_of("-[") == std::string::npos;
  });
  const bool is_unset = is_plain && first == "unset" && run == ShellRun::kYes;
  for (const std::string& name : NamesSetBy(words)) {
    if (is_unset) {
      variables_.Unset(name);
    } else {
      variables_.Forget(name);
    }
  }
}

void ShellSetters::ReadPositions(absl::string_view first, const std::vector<ShellWord>& words,
                                 ShellRun run) {
  if (first == "shift") {
    size_t count = 1;
    const bool is_known =
        words.size() == 1 ||
        (words.size() == 2 && absl::SimpleAtoi(PlainText(words[1]).value_or(""), &count));
    if (is_known && run == ShellRun::kYes) return variables_.ShiftPositions(count);
    return variables_.ForgetPositions();
  }
  const PositionsSet set = first == "set" ? PositionsSetBy(words) : PositionsSet();
  if (!set.is_set) return;
  const bool is_known = set.is_known && run == ShellRun::kYes;
  variables_.SetPositions(is_known ? KnownArguments(words, set.begin, variables_) : std::nullopt);
}

std::optional<std::vector<std::string>> KnownArguments(const std::vector<ShellWord>& words,
                                                       size_t begin, ShellVariables& variables) {
  std::vector<std::string> values;
  for (size_t i = begin; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    const bool is_quoted = std::all_of(word.pieces.begin(), word.pieces.end(),
                                       [](const ShellPiece& piece) { return piece.is_quoted; });
    const size_t count = values.size();
    if (!variables.Expand(word, &values).ok()) return std::nullopt;
    for (size_t k = count; k < values.size(); ++k) {
      // A shell may make several of one with a pattern or braces.
      const char* const letters = is_quoted ? "$" : "$*?[{~";
      if (values[k].find_first_of(letters) != std::string::npos) return std::nullopt;
    }
  }
  return values;
}

NamesInCommands NamesIn(const std::vector<ShellCommand>& commands, size_t begin, size_t end) {
  NamesInCommands found;
  for (size_t i = begin; i < end && i < commands.size(); ++i) {
    const std::vector<ShellWord>& words = commands[i].words;
    for (size_t k = 0; k < words.size(); ++k) {
      if (const auto assignment = AssignmentOf(words[k])) found.names.insert(assignment->name);
      if (const auto quoted = QuotedAssignmentOf(words[k])) found.names.insert(quoted->name);
      if (const auto element = ElementNameOf(words[k])) found.names.insert(*element);
      const std::optional<std::string> text = PlainText(words[k]);
      if (!text.has_value()) continue;
      found.programs.insert(*text);
      if (*text == "shift" || *text == "set") found.sets_positions = true;
      if (*text == "eval") found.sets_any = true;
      if ((*text == "for" || *text == "select" || *text == "local") && k + 1 < words.size()) {
        if (const auto name = PlainText(words[k + 1])) found.names.insert(*name);
      }
      if (!SetsNames(*text)) continue;
      const std::vector<ShellWord> rest(words.begin() + static_cast<std::ptrdiff_t>(k),
                                        words.end());
      const std::set<std::string> set = NamesSetBy(rest);
      found.names.insert(set.begin(), set.end());
    }
  }
  return found;
}

}  // namespace parplan
