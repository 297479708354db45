#include "clients/import/shell_conditions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "clients/import/shell_words.h"

namespace parplan {
namespace {

bool HasMatch(const std::vector<ShellWord>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const ShellWord& word) { return PlainText(word) == "=~"; });
}

// Returns whether a word is a `[` with what should stand behind a blank, as in `[$A = 1 ]`. There
// is no such command, so it fails.
bool LacksBlank(const ShellWord& word) {
  if (word.pieces.empty() || word.pieces[0].is_variable || word.pieces[0].is_quoted) return false;
  const std::string& text = word.pieces[0].text;
  return text.size() == 1 && text[0] == '[' && word.pieces.size() > 1 && word.pieces[1].is_variable;
}

}  // namespace

ShellRun ShellConditions::RunOf(ShellJoint joint) const {
  if (joint == ShellJoint::kAfter || is_in_test_) return ShellRun::kYes;
  // A command that is no test is expected to succeed where the next one is for that case.
  if (!last_.has_value()) {
    const bool succeeds = is_last_ordinary_ && joint == ShellJoint::kAnd;
    return succeeds ? ShellRun::kYes : ShellRun::kMaybe;
  }
  return *last_ == (joint == ShellJoint::kAnd) ? ShellRun::kYes : ShellRun::kNo;
}

void ShellConditions::Read(ShellJoint joint, ShellRun run, std::vector<ShellWord> words,
                           bool is_negated, bool in_condition, ShellVariables& variables) {
  const std::optional<bool> value =
      ValueOfCommand(joint, std::move(words), is_negated, in_condition, variables);
  if (run == ShellRun::kNo) return;
  // It decides alone what it may run for: whatever was before, `... || true` is true.
  const bool decides = value == (joint == ShellJoint::kOr);
  last_ = run == ShellRun::kYes || decides ? value : std::nullopt;
}

std::optional<bool> ShellConditions::ValueOfCommand(ShellJoint joint, std::vector<ShellWord> words,
                                                    bool is_negated, bool in_condition,
                                                    ShellVariables& variables) {
  is_last_ordinary_ = false;
  const std::optional<std::string> first = words.empty() ? std::nullopt : PlainText(words.front());
  const std::optional<std::string> last = words.empty() ? std::nullopt : PlainText(words.back());
  std::optional<bool> value;
  if (is_in_test_ || first == "[[") {
    // `[[ a && b ]]` was split at its sign.
    if (!is_in_test_) {
      words.erase(words.begin());
      test_joint_ = ShellJoint::kAfter;
      // A sign before it is for the whole test.
      is_test_known_ = !is_negated || last == "]]";
    }
    if (last == "]]" && !words.empty()) words.pop_back();
    // Only a run knows whether there is a match, and what it sets.
    if (HasMatch(words)) variables.Forget("BASH_REMATCH");
    value = ValueOfTest(words, variables);
    if (is_in_test_) value = Joined(joint, value);
    is_in_test_ = last != "]]";
  } else if (first == "((") {
    if (words.size() == 2) {
      const std::optional<std::string> number = variables.TextOf(words[1]);
      if (number.has_value()) value = *number != "0";
    }
  } else if (first == "[" || first == "test") {
    words.erase(words.begin());
    if (first == "[" && !words.empty()) words.pop_back();
    value = ValueOfTest(words, variables);
  } else if (first == "true" || first == ":" || words.empty()) {
    value = true;
  } else if (LacksBlank(words.front())) {
    value = false;
  } else if (first == "false") {
    value = false;
  } else {
    is_last_ordinary_ = !is_negated && !in_condition;
  }
  if (value.has_value() && is_negated) value = !*value;
  return value;
}

std::optional<bool> ShellConditions::Joined(ShellJoint joint, std::optional<bool> value) {
  if (joint == ShellJoint::kAfter) is_test_known_ = false;
  if (!is_test_known_) return std::nullopt;
  if (test_joint_ != ShellJoint::kAfter && test_joint_ != joint) return std::nullopt;
  test_joint_ = joint;
  const bool deciding = joint == ShellJoint::kOr;
  if (last_ == deciding || value == deciding) return deciding;
  return last_.has_value() && value.has_value() ? value : std::nullopt;
}

}  // namespace parplan
