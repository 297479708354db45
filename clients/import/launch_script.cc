#include "clients/import/launch_script.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/shell_branches.h"
#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"
#include "clients/import/shell_words.h"

namespace parplan {
namespace {

// Command lines inside words of command lines: `srun bash -c "torchrun ..."` has one.
constexpr int kMaxInnerLines = 4;

// Reads the commands of one script in their order.
class ScriptReader {
 public:
  ScriptReader(const NamedText& file, absl::string_view required_argument)
      : file_(file), required_argument_(required_argument), variables_(kMaxImportBytes) {}

  absl::StatusOr<LaunchCommand> Read() {
    PARPLAN_RETURN_IF_ERROR(ReadText(file_.text, 0));
    if (found_.empty()) {
      return Fault(absl::StrCat("has no command that starts a Python program with ",
                                required_argument_,
                                "; arguments alone begin with the first `--name`"));
    }
    if (found_.size() > 1) {
      return Fault(absl::StrCat("starts ", found_.size(), " Python programs with ",
                                required_argument_, " (", found_[0].program, ", ",
                                found_[1].program, "); leave one"));
    }
    LaunchCommand command = std::move(found_.front());
    PARPLAN_RETURN_IF_ERROR(CheckVariables(file_, &command));
    if (!variables_.taken_as_empty().empty()) {
      command.notes.push_back(absl::StrCat(
          "Variables that the file asks for in a test and does not set count as empty: ",
          absl::StrJoin(variables_.taken_as_empty(), ", "), "."));
    }
    if (!sourced_.empty()) {
      command.notes.push_back(
          absl::StrCat("Not read, though the script sources them: ", absl::StrJoin(sourced_, ", "),
                       "; what they set is not known."));
    }
    return command;
  }

 private:
  absl::Status Fault(absl::string_view rule) const {
    return ImportError(Reason::kSpecInvalid, file_.name, "", rule);
  }

  absl::Status ReadText(absl::string_view text, int inner_lines) {
    const std::optional<std::vector<ShellCommand>> commands = SplitShellText(text);
    if (!commands.has_value()) {
      return inner_lines > 0 ? absl::OkStatus() : Fault("ends inside a quotation or a parenthesis");
    }
    for (const ShellCommand& command : *commands) {
      PARPLAN_RETURN_IF_ERROR(ReadCommand(command, inner_lines));
    }
    return absl::OkStatus();
  }

  absl::Status ReadCommand(const ShellCommand& command, int inner_lines) {
    const ShellRun run = RunOf(command.joint);
    const auto note_place = [this, inner_lines] {
      variables_.set_has_positions(inner_lines == 0 && !branches_.in_function());
    };
    note_place();
    if (ReadSign(command, run)) return absl::OkStatus();
    // Words that lead a command: keywords and assignments.
    bool is_negated = false;
    bool is_declaration = false;
    bool is_evaluated = false;
    std::vector<Assignment> assignments;
    size_t begin = 0;
    for (; begin < command.words.size(); ++begin) {
      const ShellWord& word = command.words[begin];
      if (const std::optional<Assignment> assignment = AssignmentOf(word)) {
        assignments.push_back(*assignment);
        continue;
      }
      if (const std::optional<std::string> name = ElementNameOf(word)) {
        // The array is not followed after that.
        if (Within(branches_.run(), run) != ShellRun::kNo) variables_.Forget(*name);
        continue;
      }
      const std::optional<std::string> text = PlainText(word);
      if (text == "function") {
        branches_.BeginFunction();
        ++begin;
        if (begin >= command.words.size()) return absl::OkStatus();
        continue;
      }
      if (text == "!") {
        is_negated = !is_negated;
        continue;
      }
      if (!text.has_value() || !ReadKeyword(*text, run)) break;
      note_place();
      is_declaration = is_declaration || IsDeclaration(*text);
      is_evaluated = is_evaluated || *text == "eval";
      if (*text == "case") {
        const auto subject = begin + 1 < command.words.size()
                                 ? variables_.TextOf(command.words[begin + 1])
                                 : std::nullopt;
        branches_.OpenCase(Within(branches_.run(), run), subject);
        // `case TEXT in PATTERN`.
        for (size_t i = begin + 3; i < command.words.size(); ++i) {
          branches_.Pattern(command.words[i], variables_);
        }
        return absl::OkStatus();
      }
      if (*text == "for" || *text == "select") {
        const std::optional<std::string> name =
            begin + 1 < command.words.size() ? PlainText(command.words[begin + 1]) : std::nullopt;
        if (name.has_value() && run != ShellRun::kNo) variables_.Forget(*name);
        return absl::OkStatus();
      }
    }
    const std::vector<ShellWord> rest(command.words.begin() + static_cast<int64_t>(begin),
                                      command.words.end());
    // In front of a program they are for that program alone.
    const bool are_for_program = !rest.empty() && !is_declaration;
    if (!are_for_program) PARPLAN_RETURN_IF_ERROR(AssignAll(assignments, run));
    NoteValue(command.joint, run, ValueOfCommand(command.joint, rest, is_negated));
    if (Within(branches_.run(), run) == ShellRun::kNo) return absl::OkStatus();
    if (is_declaration) PARPLAN_RETURN_IF_ERROR(ReadDeclaration(rest, run));
    ForgetWhatIsSet(rest, run);
    std::vector<std::string> words;
    for (const ShellWord& word : rest) {
      PARPLAN_RETURN_IF_ERROR(SetDefaults(rest, word, run));
      const absl::Status status = variables_.Expand(word, &words);
      if (!status.ok()) return Fault(status.message());
    }
    // The words of `eval` may be another `set`.
    if (is_evaluated && !branches_.in_function()) variables_.ForgetPositions();
    if (!are_for_program || assignments.empty()) return ReadWords(words, inner_lines);
    variables_.OpenScope();
    PARPLAN_RETURN_IF_ERROR(AssignAll(assignments, run));
    const absl::Status status = ReadWords(words, inner_lines);
    variables_.CloseScope();
    return status;
  }

  // Reads the signs of subshells and of `case`, and its patterns. Returns whether it was one.
  bool ReadSign(const ShellCommand& command, ShellRun run) {
    const std::optional<std::string> sign =
        command.words.empty() ? std::nullopt : PlainText(command.words[0]);
    const bool follows_opening = std::exchange(is_after_opening_, sign == "(");
    if (branches_.in_patterns() && sign != "esac") {
      if (sign == ")") branches_.EndPatterns();
      for (const ShellWord& word : command.words) {
        if (sign != ")" && sign != "(") branches_.Pattern(word, variables_);
      }
      return true;
    }
    if (sign == ";;" || sign == ";&" || sign == ";;&") {
      branches_.EndArm(sign == ";&");
      if (sign == ";;&") branches_.TryFurtherArms();
      return true;
    }
    if (sign != "(" && sign != ")") return false;
    // Nothing between them: a function is defined.
    if (sign == ")" && follows_opening) branches_.BeginFunction();
    // A group in a test changes how its parts are joined.
    if (is_in_test_) {
      is_test_known_ = false;
    } else if (sign == "(") {
      branches_.OpenSubshell(Within(branches_.run(), run));
      variables_.OpenScope();
    } else if (branches_.in_subshell()) {
      branches_.Close();
      variables_.CloseScope();
      last_ = std::nullopt;
    }
    return true;
  }

  absl::Status AssignAll(const std::vector<Assignment>& assignments, ShellRun run) {
    for (const Assignment& assignment : assignments) {
      PARPLAN_RETURN_IF_ERROR(Assign(assignment, run));
    }
    return absl::OkStatus();
  }

  // Reads the names and assignments behind an option such as `-A`, which changes what they mean. A
  // number behind `-i` is itself; all other assignments are not known.
  absl::Status ReadDeclaration(const std::vector<ShellWord>& words, ShellRun run) {
    const bool is_of_numbers = !words.empty() && PlainText(words.front()) == "-i";
    bool changes_values = false;
    for (const ShellWord& word : words) {
      const std::string plain = PlainText(word).value_or("");
      if (absl::StartsWith(plain, "-") || absl::StartsWith(plain, "+")) {
        // Arrays with keys, numbers, other letters, and names of names.
        changes_values = changes_values || plain.find_first_of("Ailucn") != std::string::npos;
        continue;
      }
      const std::optional<Assignment> assignment = AssignmentOf(word);
      const std::optional<std::string> element = ElementNameOf(word);
      if (!assignment.has_value()) {
        const std::string name = element.value_or(plain);
        if (changes_values) declared_[name] = declared_.count(name) == 0 && is_of_numbers;
        if (element.has_value() || (changes_values && !is_of_numbers)) variables_.Forget(name);
        continue;
      }
      if (changes_values) {
        declared_[assignment->name] = declared_.count(assignment->name) == 0 && is_of_numbers;
      }
      const std::optional<std::string> text =
          is_of_numbers ? variables_.TextOf(assignment->value) : std::nullopt;
      const bool is_number = text.has_value() && IsWholeNumber(*text) && !assignment->appends;
      if (is_number) {
        PARPLAN_RETURN_IF_ERROR(Assign(*assignment, run));
      } else {
        variables_.Forget(assignment->name);
      }
    }
    return absl::OkStatus();
  }

  // Forgets the variables that a command of the shell itself sets.
  void ForgetWhatIsSet(const std::vector<ShellWord>& words, ShellRun run) {
    const std::string first = words.empty() ? "" : PlainText(words[0]).value_or("");
    if ((first == "source" || first == ".") && words.size() > 1) {
      sourced_.insert(ShownWord(words[1]));
    }
    ReadPositions(first, words, run);
    // `unset -f` and `unset A[1]` leave the variable.
    const bool is_plain = std::all_of(words.begin(), words.end(), [](const ShellWord& word) {
      const std::optional<std::string> text = PlainText(word);
      return text.has_value() && text->find_first_of("-[") == std::string::npos;
    });
    const bool is_unset =
        is_plain && first == "unset" && Within(branches_.run(), run) == ShellRun::kYes;
    for (const std::string& name : NamesSetBy(words)) {
      if (is_unset) {
        variables_.Unset(name);
      } else {
        variables_.Forget(name);
      }
    }
  }

  // Sets the arguments of the script to those of `set`, and forgets them where only a run knows
  // them.
  void ReadPositions(absl::string_view first, const std::vector<ShellWord>& words, ShellRun run) {
    // Those of a function are others.
    if (branches_.in_function()) return;
    if (first == "shift") return variables_.ForgetPositions();
    const PositionsSet set = first == "set" ? PositionsSetBy(words) : PositionsSet();
    if (!set.is_set) return;
    std::vector<std::string> values;
    bool is_known = set.is_known && Within(branches_.run(), run) == ShellRun::kYes;
    for (size_t i = set.begin; i < words.size() && is_known; ++i) {
      const ShellWord& word = words[i];
      const bool is_quoted = std::all_of(word.pieces.begin(), word.pieces.end(),
                                         [](const ShellPiece& piece) { return piece.is_quoted; });
      const size_t count = values.size();
      is_known = variables_.Expand(word, &values).ok();
      for (size_t k = count; k < values.size(); ++k) {
        // A shell may make several of one with a pattern or braces.
        const char* const letters = is_quoted ? "$" : "$*?[{~";
        is_known = is_known && values[k].find_first_of(letters) == std::string::npos;
      }
    }
    variables_.SetPositions(is_known ? std::optional(std::move(values)) : std::nullopt);
  }

  // Returns whether a command runs behind the one before it.
  ShellRun RunOf(ShellJoint joint) const {
    if (joint == ShellJoint::kAfter || is_in_test_) return ShellRun::kYes;
    // A command that is no test is expected to succeed where the next one is for that case.
    if (!last_.has_value()) {
      const bool succeeds = is_last_ordinary_ && joint == ShellJoint::kAnd;
      return succeeds ? ShellRun::kYes : ShellRun::kMaybe;
    }
    return *last_ == (joint == ShellJoint::kAnd) ? ShellRun::kYes : ShellRun::kNo;
  }

  // Keeps the value of a command for the one behind it, and for the branch whose condition it is.
  void NoteValue(ShellJoint joint, ShellRun run, std::optional<bool> value) {
    if (run == ShellRun::kNo) return;
    // It decides alone what it may run for: whatever was before, `... || true` is true.
    const bool decides = value == (joint == ShellJoint::kOr);
    last_ = run == ShellRun::kYes || decides ? value : std::nullopt;
  }

  // Returns the value of a command without its leading words: that of a test, or nothing.
  std::optional<bool> ValueOfCommand(ShellJoint joint, std::vector<ShellWord> words,
                                     bool is_negated) {
    is_last_ordinary_ = false;
    const std::optional<std::string> first =
        words.empty() ? std::nullopt : PlainText(words.front());
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
      value = ValueOfTest(words, variables_);
      if (is_in_test_) value = Joined(joint, value);
      is_in_test_ = last != "]]";
    } else if (first == "((") {
      if (words.size() == 2) {
        const std::optional<std::string> number = variables_.TextOf(words[1]);
        if (number.has_value()) value = *number != "0";
      }
    } else if (first == "[" || first == "test") {
      words.erase(words.begin());
      if (first == "[" && !words.empty()) words.pop_back();
      value = ValueOfTest(words, variables_);
    } else if (first == "true" || first == ":" || words.empty()) {
      value = true;
    } else if (first == "false") {
      value = false;
    } else {
      is_last_ordinary_ = !is_negated && !branches_.in_condition();
    }
    if (value.has_value() && is_negated) value = !*value;
    return value;
  }

  // Returns the value of two parts of one test; nothing where the signs are not all the same, since
  // `&&` goes before `||` there.
  std::optional<bool> Joined(ShellJoint joint, std::optional<bool> value) {
    if (joint == ShellJoint::kAfter) is_test_known_ = false;
    if (!is_test_known_) return std::nullopt;
    if (test_joint_ != ShellJoint::kAfter && test_joint_ != joint) return std::nullopt;
    test_joint_ = joint;
    const bool deciding = joint == ShellJoint::kOr;
    if (last_ == deciding || value == deciding) return deciding;
    return last_.has_value() && value.has_value() ? value : std::nullopt;
  }

  // Follows branches. Returns whether another command may follow the word.
  bool ReadKeyword(const std::string& word, ShellRun run) {
    static const auto* const opening =
        new std::set<std::string>({"for", "select", "while", "until", "{"});
    static const auto* const closing = new std::set<std::string>({"fi", "done", "esac", "}"});
    static const auto* const between =
        new std::set<std::string>({"do", "time", "exec", "export", "declare", "local", "readonly",
                                   "typeset", "-a", "-x", "-r", "eval"});
    const ShellRun here = Within(branches_.run(), run);
    if (word == "if") {
      branches_.OpenIf(here);
    } else if (word == "elif") {
      branches_.Elif();
    } else if (word == "then") {
      branches_.Then(last_);
      is_in_test_ = false;
    } else if (word == "else") {
      branches_.Else();
    } else if (word == "case") {
      // `ReadCommand` opens it.
      return true;
    } else if (opening->count(word) > 0) {
      branches_.OpenOther(here);
    } else if (closing->count(word) > 0) {
      branches_.Close();
    } else {
      return between->count(word) > 0;
    }
    return true;
  }

  absl::Status Assign(const Assignment& assignment, ShellRun run) {
    const ShellRun here = Within(branches_.run(), run);
    if (here == ShellRun::kMaybe) variables_.Forget(assignment.name);
    if (here != ShellRun::kYes) return absl::OkStatus();
    if (const auto declared = declared_.find(assignment.name); declared != declared_.end()) {
      const std::optional<std::string> text = declared->second && !assignment.appends
                                                  ? variables_.TextOf(assignment.value)
                                                  : std::nullopt;
      if (!text.has_value() || !IsWholeNumber(*text)) {
        variables_.Forget(assignment.name);
        return absl::OkStatus();
      }
    }
    const absl::Status status =
        variables_.Assign(assignment.name, assignment.appends, assignment.value);
    return status.ok() ? status : Fault(status.message());
  }

  // Sets the variables of `: ${NAME:=text}`, as scripts give defaults.
  absl::Status SetDefaults(const std::vector<ShellWord>& command, const ShellWord& word,
                           ShellRun run) {
    if (PlainText(command.front()) != ":") return absl::OkStatus();
    for (const ShellPiece& piece : word.pieces) {
      const size_t sign = piece.is_variable ? piece.text.find('=') : std::string::npos;
      if (sign == std::string::npos) continue;
      absl::string_view name = absl::string_view(piece.text).substr(0, sign);
      absl::ConsumeSuffix(&name, ":");
      const ShellWord assigned = {.pieces = {{.text = absl::StrCat(name, "=")}, piece},
                                  .elements = std::nullopt};
      if (const std::optional<Assignment> assignment = AssignmentOf(assigned)) {
        PARPLAN_RETURN_IF_ERROR(Assign(*assignment, run));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadWords(const std::vector<std::string>& words, int inner_lines) {
    const auto program = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return absl::EndsWith(word, ".py") && !absl::StartsWith(word, "-") &&
             word.find_first_of(" \t\n") == std::string::npos;
    });
    if (program != words.end()) {
      LaunchCommand command;
      command.program = *program;
      command.arguments.assign(program + 1, words.end());
      command.device_count = DeviceCountOf({words.begin(), program});
      const bool is_asked_for = std::any_of(
          command.arguments.begin(), command.arguments.end(), [this](const std::string& word) {
            return word == required_argument_ ||
                   absl::StartsWith(word, absl::StrCat(required_argument_, "="));
          });
      // A loop may run a command several times; its text is the same.
      if (is_asked_for) found_.push_back(std::move(command));
      return absl::OkStatus();
    }
    if (inner_lines >= kMaxInnerLines) return absl::OkStatus();
    for (const std::string& word : words) {
      if (absl::StrContains(word, ".py ") || absl::StrContains(word, ".py\n")) {
        PARPLAN_RETURN_IF_ERROR(ReadText(word, inner_lines + 1));
      }
    }
    return absl::OkStatus();
  }

  const NamedText& file_;
  const absl::string_view required_argument_;
  ShellVariables variables_;
  ShellBranches branches_;
  // The value of the command before, as far as the text says; and whether that is no test, and its
  // success is expected.
  std::optional<bool> last_;
  bool is_last_ordinary_ = false;
  // Whether a `[[` is open, whether its value can be known, and how its parts are joined so far.
  bool is_in_test_ = false;
  bool is_test_known_ = true;
  ShellJoint test_joint_ = ShellJoint::kAfter;
  // Whether the command before was `(`.
  bool is_after_opening_ = false;
  // Variables with an option of `declare` that changes what an assignment means; true if numbers
  // remain themselves.
  std::map<std::string, bool> declared_;
  // The files of `source`.
  std::set<std::string> sourced_;
  std::vector<LaunchCommand> found_;
};

}  // namespace

absl::StatusOr<LaunchCommand> ReadLaunchScript(const NamedText& file,
                                               absl::string_view required_argument) {
  if (file.text.size() > kMaxImportBytes) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  return ScriptReader(file, required_argument).Read();
}

}  // namespace parplan
