#include "clients/import/shell_branches.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

// Texts of `case` and their patterns; longer ones count as not known.
constexpr size_t kMaxMatchBytes = 4096;

// Returns the text of a word without variables and quotations, such as an operator.
std::string PlainTextOf(const ShellWord& word) {
  if (word.pieces.size() != 1 || word.elements.has_value()) return "";
  const ShellPiece& piece = word.pieces[0];
  return piece.is_variable || piece.is_quoted ? "" : piece.text;
}

bool IsPattern(const ShellWord& word) {
  return std::any_of(word.pieces.begin(), word.pieces.end(), [](const ShellPiece& piece) {
    return !piece.is_quoted && !piece.is_variable &&
           piece.text.find_first_of("*?[") != std::string::npos;
  });
}

// Returns whether every letter of a pattern is for itself, apart from `*` and `?` outside
// quotations.
bool IsGlob(const ShellWord& word) {
  return std::all_of(word.pieces.begin(), word.pieces.end(), [](const ShellPiece& piece) {
    const char* const special = piece.is_quoted ? "*?" : "[(";
    return !piece.is_variable && piece.text.find_first_of(special) == std::string::npos;
  });
}

// Returns whether a text matches a pattern with `*` and `?`.
bool Matches(absl::string_view text, absl::string_view pattern) {
  size_t at = 0;
  size_t sign = 0;
  size_t star = absl::string_view::npos;
  size_t star_at = 0;
  while (at < text.size()) {
    if (sign < pattern.size() && pattern[sign] == '*') {
      star = sign++;
      star_at = at;
    } else if (sign < pattern.size() && (pattern[sign] == '?' || pattern[sign] == text[at])) {
      ++sign;
      ++at;
    } else if (star != absl::string_view::npos) {
      sign = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', sign) == absl::string_view::npos;
}

std::optional<bool> ValueOfNumbers(const std::string& sign, const std::string& left,
                                   const std::string& right) {
  int64_t a = 0;
  int64_t b = 0;
  // `[[` takes 010 as octal, and `[` as decimal.
  if (!IsWholeNumber(left) || !IsWholeNumber(right)) return std::nullopt;
  if (!absl::SimpleAtoi(left, &a) || !absl::SimpleAtoi(right, &b)) return std::nullopt;
  if (sign == "-eq") return a == b;
  if (sign == "-ne") return a != b;
  if (sign == "-lt") return a < b;
  if (sign == "-le") return a <= b;
  if (sign == "-gt") return a > b;
  if (sign == "-ge") return a >= b;
  return std::nullopt;
}

}  // namespace

ShellRun Within(ShellRun outer, ShellRun inner) { return std::min(outer, inner); }

ShellRun ShellBranches::Rest(const Branch& branch) {
  if (branch.earlier == ShellRun::kMaybe) return ShellRun::kMaybe;
  return branch.earlier == ShellRun::kYes ? ShellRun::kNo : ShellRun::kYes;
}

void ShellBranches::OpenIf(ShellRun outer) {
  open_.push_back({.is_if = true, .in_condition = true, .outer = outer, .run = outer});
}

void ShellBranches::Then(std::optional<bool> condition) {
  if (open_.empty() || !open_.back().is_if) return;
  Branch& branch = open_.back();
  const ShellRun value = !condition.has_value() ? ShellRun::kMaybe
                         : *condition           ? ShellRun::kYes
                                                : ShellRun::kNo;
  branch.in_condition = false;
  branch.run = Within(branch.outer, Within(Rest(branch), value));
  branch.earlier = std::max(branch.earlier, value);
}

void ShellBranches::Elif() {
  Else();
  if (!open_.empty()) open_.back().in_condition = open_.back().is_if;
}

void ShellBranches::Else() {
  if (open_.empty() || !open_.back().is_if) return;
  open_.back().in_condition = false;
  open_.back().run = Within(open_.back().outer, Rest(open_.back()));
}

void ShellBranches::OpenLoop(ShellRun outer, bool is_once) {
  const ShellRun run = is_once ? ShellRun::kYes : ShellRun::kMaybe;
  open_.push_back({.is_loop = true, .outer = outer, .run = Within(outer, run)});
}

void ShellBranches::OpenGroup(ShellRun outer) { open_.push_back({.outer = outer, .run = outer}); }

void ShellBranches::OpenCall(ShellRun outer) {
  open_.push_back({.is_call = true, .outer = outer, .run = outer});
}

void ShellBranches::SetApart() {
  if (!open_.empty()) open_.back().is_subshell = true;
}

void ShellBranches::LimitFrom(size_t first, ShellRun limit) {
  for (size_t i = first; i < open_.size(); ++i) {
    open_[i].outer = Within(open_[i].outer, limit);
    open_[i].run = Within(open_[i].run, limit);
  }
}

void ShellBranches::Return(ShellRun run) {
  if (run == ShellRun::kNo) return;
  size_t first = open_.size();
  while (first > 0 && !open_[first - 1].is_call) --first;
  // Outside of functions it ends a file that another one sources.
  if (first == 0) return;
  LimitFrom(first - 1, run == ShellRun::kYes ? ShellRun::kNo : ShellRun::kMaybe);
}

void ShellBranches::EndLoop(ShellRun run, bool is_far) {
  if (run == ShellRun::kNo) return;
  size_t first = open_.size();
  while (first > 0 && !open_[first - 1].is_loop && !open_[first - 1].is_call) --first;
  if (first == 0 || !open_[first - 1].is_loop) return;
  const bool is_certain = run == ShellRun::kYes && !is_far;
  LimitFrom(is_far ? 0 : first - 1, is_certain ? ShellRun::kNo : ShellRun::kMaybe);
}

void ShellBranches::OpenSubshell(ShellRun outer) {
  open_.push_back({.is_subshell = true, .outer = outer, .run = outer});
}

void ShellBranches::OpenCase(ShellRun outer, std::optional<std::string> subject) {
  open_.push_back({.in_patterns = true,
                   .is_case = true,
                   .subject = std::move(subject),
                   .outer = outer,
                   .run = outer});
}

void ShellBranches::Pattern(const ShellWord& pattern, ShellVariables& variables) {
  Branch& branch = open_.back();
  branch.has_pattern = true;
  const std::optional<std::string> text = variables.TextOf(pattern);
  ShellRun value = ShellRun::kMaybe;
  if (text == "*" && IsPattern(pattern)) {
    value = ShellRun::kYes;
  } else if (branch.subject.has_value() && text.has_value() && IsGlob(pattern) &&
             std::max(branch.subject->size(), text->size()) <= kMaxMatchBytes) {
    value = Matches(*branch.subject, *text) ? ShellRun::kYes : ShellRun::kNo;
  }
  branch.patterns = std::max(branch.patterns, value);
}

void ShellBranches::OpenPatterns() {
  Branch& branch = open_.back();
  if (branch.has_pattern) {
    ++branch.parentheses;
    branch.is_extended = true;
  }
  branch.has_pattern = true;
}

void ShellBranches::EndPatterns() {
  Branch& branch = open_.back();
  if (branch.parentheses > 0) {
    --branch.parentheses;
    return;
  }
  if (branch.is_extended) branch.patterns = ShellRun::kMaybe;
  branch.has_pattern = false;
  branch.is_extended = false;
  branch.in_patterns = false;
  const ShellRun arm = branch.falls ? ShellRun::kMaybe : Within(Rest(branch), branch.patterns);
  branch.run = Within(branch.outer, arm);
  branch.earlier = std::max(branch.earlier, branch.patterns);
  branch.patterns = ShellRun::kNo;
  branch.falls = false;
}

void ShellBranches::EndArm(bool falls) {
  if (open_.empty() || !open_.back().is_case) return;
  Branch& branch = open_.back();
  branch.falls = falls;
  branch.in_patterns = true;
  branch.run = branch.outer;
}

void ShellBranches::TryFurtherArms() {
  if (open_.empty() || !open_.back().is_case) return;
  // All arms before decide whether they run; each that matches may.
  open_.back().earlier = ShellRun::kMaybe;
}

void ShellBranches::Close() {
  if (!open_.empty()) open_.pop_back();
}

std::optional<bool> ValueOfTest(const std::vector<ShellWord>& words, ShellVariables& variables) {
  size_t begin = 0;
  bool is_negated = false;
  while (begin + 1 < words.size() && PlainTextOf(words[begin]) == "!") {
    is_negated = !is_negated;
    ++begin;
  }
  const auto text = [&](size_t index) { return variables.TextOf(words[begin + index]); };
  std::optional<bool> value;
  const size_t count = words.size() - begin;
  if (count == 1) {
    if (const auto only = text(0)) value = !only->empty();
  } else if (count == 2) {
    const std::string sign = PlainTextOf(words[begin]);
    if (sign != "-n" && sign != "-z") return std::nullopt;
    if (const auto only = text(1)) value = only->empty() == (sign == "-z");
  } else if (count == 3) {
    const std::string sign = PlainTextOf(words[begin + 1]);
    const std::optional<std::string> left = text(0);
    const std::optional<std::string> right = text(2);
    if (!left.has_value() || !right.has_value()) return std::nullopt;
    if (sign == "=" || sign == "==" || sign == "!=") {
      if (IsPattern(words[begin + 2])) return std::nullopt;
      value = (*left == *right) == (sign != "!=");
    } else {
      value = ValueOfNumbers(sign, *left, *right);
    }
  }
  if (!value.has_value()) return std::nullopt;
  return *value != is_negated;
}

}  // namespace parplan
