#include "clients/import/launch_script.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/shell_branches.h"
#include "clients/import/shell_text.h"
#include "clients/import/shell_variables.h"

namespace parplan {
namespace {

// Command lines inside words of command lines: `srun bash -c "torchrun ..."` has one.
constexpr int kMaxInnerLines = 4;

// Returns the text of a word without variables and quotations, or nothing.
std::optional<std::string> PlainText(const ShellWord& word) {
  if (word.pieces.size() != 1 || word.elements.has_value()) return std::nullopt;
  const ShellPiece& piece = word.pieces[0];
  return piece.is_variable || piece.is_quoted ? std::nullopt : std::optional(piece.text);
}

// An assignment `NAME=value` or `NAME+=value`.
struct Assignment {
  std::string name;
  bool appends = false;
  ShellWord value;
};

std::optional<Assignment> AssignmentOf(const ShellWord& word) {
  if (word.pieces.empty() || word.pieces[0].is_variable || word.pieces[0].is_quoted) {
    return std::nullopt;
  }
  const std::string& text = word.pieces[0].text;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  Assignment assignment;
  absl::string_view name = absl::string_view(text).substr(0, equals);
  assignment.appends = absl::ConsumeSuffix(&name, "+");
  const bool is_name = !name.empty() && !absl::ascii_isdigit(name[0]) &&
                       std::all_of(name.begin(), name.end(), [](char letter) {
                         return absl::ascii_isalnum(letter) || letter == '_';
                       });
  if (!is_name) return std::nullopt;
  assignment.name = std::string(name);
  assignment.value = word;
  assignment.value.pieces[0].text.erase(0, equals + 1);
  return assignment;
}

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
    PARPLAN_RETURN_IF_ERROR(CheckVariables(&command));
    if (!variables_.taken_as_empty().empty()) {
      command.notes.push_back(absl::StrCat(
          "Variables that the file asks for in a test and does not set count as empty: ",
          absl::StrJoin(variables_.taken_as_empty(), ", "), "."));
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
    // Words that lead a command: keywords and assignments.
    bool is_negated = false;
    size_t begin = 0;
    for (; begin < command.words.size(); ++begin) {
      const ShellWord& word = command.words[begin];
      if (const std::optional<Assignment> assignment = AssignmentOf(word)) {
        PARPLAN_RETURN_IF_ERROR(Assign(*assignment, run));
        continue;
      }
      const std::optional<std::string> text = PlainText(word);
      if (text == "!") {
        is_negated = !is_negated;
        continue;
      }
      if (!text.has_value() || !ReadKeyword(*text, run)) break;
      if (*text == "for" || *text == "select") {
        const std::optional<std::string> name =
            begin + 1 < command.words.size() ? PlainText(command.words[begin + 1]) : std::nullopt;
        if (name.has_value() && run != ShellRun::kNo) variables_.Forget(*name);
        return absl::OkStatus();
      }
    }
    const std::vector<ShellWord> rest(command.words.begin() + static_cast<int64_t>(begin),
                                      command.words.end());
    NoteValue(command.joint, run, ValueOfCommand(command.joint, rest, is_negated));
    if (Within(branches_.run(), run) == ShellRun::kNo) return absl::OkStatus();
    std::vector<std::string> words;
    for (const ShellWord& word : rest) {
      PARPLAN_RETURN_IF_ERROR(SetDefaults(rest, word, run));
      const absl::Status status = variables_.Expand(word, &words);
      if (!status.ok()) return Fault(status.message());
    }
    return ReadWords(words, inner_lines);
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
        new std::set<std::string>({"for", "select", "while", "until", "case", "{"});
    static const auto* const closing = new std::set<std::string>({"fi", "done", "esac", "}"});
    static const auto* const between =
        new std::set<std::string>({"do", "time", "exec", "export", "declare", "local", "readonly",
                                   "typeset", "-a", "-x", "-r", "-i", "eval"});
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
      command.device_count = DeviceCount({words.begin(), program});
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

  // Returns nodes times processes of a node, if torchrun is given both as numbers.
  static std::optional<int> DeviceCount(const std::vector<std::string>& words) {
    int64_t nodes = 1;
    int64_t processes = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      std::string name = words[i];
      std::string value = i + 1 < words.size() ? words[i + 1] : "";
      const size_t equals = name.find('=');
      if (equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      }
      std::replace(name.begin(), name.end(), '_', '-');
      int64_t* const target = name == "--nnodes"           ? &nodes
                              : name == "--nproc-per-node" ? &processes
                                                           : nullptr;
      if (target == nullptr) continue;
      if (!absl::SimpleAtoi(value, target) || *target < 1 || *target > kMaxImportCount) {
        return std::nullopt;
      }
    }
    const int64_t count = nodes * processes;
    if (count < 1 || count > kMaxImportCount) return std::nullopt;
    return static_cast<int>(count);
  }

  // Refuses variables that may hold arguments, and notes those that are values.
  absl::Status CheckVariables(LaunchCommand* command) const {
    std::vector<std::string> kept;
    std::vector<std::string> values;
    bool has_rest = false;
    for (const std::string& word : command->arguments) {
      if (word == "$@" || word == "$*") {
        has_rest = true;
        continue;
      }
      const bool follows_name = !kept.empty() && absl::StartsWith(kept.back(), "--") &&
                                !absl::StrContains(kept.back(), '=');
      if (absl::StartsWith(word, "$")) {
        const bool is_array = absl::EndsWith(word, "[@]}") || absl::EndsWith(word, "[*]}");
        const bool is_whole = word.find_first_of("/.,:=") == std::string::npos;
        if (is_array || (is_whole && !follows_name)) {
          return Fault(absl::StrCat("does not set `", word,
                                    "` as text, and it may hold arguments; write them in its "
                                    "place"));
        }
      }
      if (absl::StrContains(word, '$')) {
        values.push_back(follows_name ? absl::StrCat(kept.back(), " ", word) : word);
      }
      kept.push_back(word);
    }
    if (has_rest) {
      command->notes.push_back(
          "Arguments that the script itself is given (`$@`) are not in the file.");
    }
    if (!values.empty()) {
      command->notes.push_back(
          absl::StrCat("Values that the file does not set: ", absl::StrJoin(values, ", "), "."));
    }
    command->arguments = std::move(kept);
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
