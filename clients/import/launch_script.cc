#include "clients/import/launch_script.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/script_reader.h"

namespace parplan {
namespace {

// Returns whether the options behind `declare`, which is the word at `place`, have a `g`.
bool HasGlobalOption(const std::vector<ShellWord>& words, size_t place) {
  for (size_t i = place + 1; i < words.size(); ++i) {
    const std::string plain = PlainText(words[i]).value_or("");
    if (!absl::StartsWith(plain, "-") && !absl::StartsWith(plain, "+")) return false;
    if (absl::StartsWith(plain, "-") && absl::StrContains(plain, 'g')) return true;
  }
  return false;
}

// Returns whether a command of the shell of this name changes what later commands read.
bool ChangesShell(absl::string_view name) {
  return SetsNames(name) || IsDeclaration(name) || name == "eval" || name == "set" ||
         name == "shift" || name == "return" || name == "break" || name == "continue" ||
         name == "source" || name == ".";
}

}  // namespace

absl::StatusOr<LaunchCommand> ScriptReader::Read() {
  std::optional<std::vector<ShellCommand>> commands = SplitShellText(file_.text);
  if (!commands.has_value()) return Fault("ends inside a quotation or a parenthesis");
  if (const auto fault = MarkGroups(*commands)) return Fault(*fault);
  absl::Status status = ReadCommands(*commands, 0);
  if (status.ok()) status = ReadUncalled();
  // Nothing below says which file it is in.
  if (!status.ok()) return Fault(status.message());
  if (found_.empty()) {
    return Fault(absl::StrCat("has no command that starts a Python program with ",
                              required_argument_,
                              "; arguments alone begin with the first `--name`"));
  }
  return TakeFound();
}

absl::Status ScriptReader::Fault(absl::string_view rule) const {
  return ImportError(Reason::kSpecInvalid, file_.name, "", rule);
}

absl::StatusOr<ScriptReader::Leading> ScriptReader::ReadLeading(
    const std::vector<ShellCommand>& commands, size_t place, ShellRun run) {
  const std::vector<ShellWord>& words = commands[place].words;
  Leading leading;
  for (; leading.end < words.size(); ++leading.end) {
    const ShellWord& word = words[leading.end];
    if (const std::optional<Assignment> assignment = AssignmentOf(word)) {
      leading.assignments.push_back(*assignment);
      continue;
    }
    if (const std::optional<std::string> name = ElementNameOf(word)) {
      // The array is not followed after that.
      if (Here(run) != ShellRun::kNo) variables_.Forget(*name);
      if (leading.is_local) SaveLocals({}, {word}, Here(run));
      continue;
    }
    const std::optional<std::string> text = PlainText(word);
    if (text == "!") {
      leading.is_negated = !leading.is_negated;
      continue;
    }
    if (!text.has_value()) break;
    if (text == "for" || text == "select" || text == "while" || text == "until") {
      // Before what it may set is forgotten.
      if (word.is_apart) variables_.OpenScope();
      PARPLAN_RETURN_IF_ERROR(OpenLoop(commands, place, leading.end, run));
      if (word.is_apart) branches_.SetApart();
      leading.is_whole = text == "for" || text == "select";
      if (leading.is_whole) return leading;
      continue;
    }
    // A function may have the name of a command of the shell.
    if (IsDeclaration(*text) && functions_.count(*text) > 0) break;
    if (!ReadKeyword(*text, run)) break;
    if (word.is_apart) OpenApart();
    const bool is_closer = *text == "fi" || *text == "done" || *text == "esac" || *text == "}";
    leading.has_closer = leading.has_closer || is_closer;
    leading.is_declaration = leading.is_declaration || IsDeclaration(*text);
    // In a function these make local variables unless `-g` stands behind them.
    leading.is_local =
        leading.is_local || *text == "local" ||
        ((*text == "declare" || *text == "typeset") && !HasGlobalOption(words, leading.end));
    if (*text == "case") {
      ReadCase(words, leading.end, run);
      if (word.is_apart) OpenApart();
      leading.is_whole = true;
      return leading;
    }
  }
  return leading;
}

void ScriptReader::ReadCase(const std::vector<ShellWord>& words, size_t begin, ShellRun run) {
  const auto subject =
      begin + 1 < words.size() ? variables_.TextOf(words[begin + 1]) : std::nullopt;
  branches_.OpenCase(Here(run), subject);
  for (size_t i = begin + 3; i < words.size(); ++i) {
    if (i == begin + 3 && PlainText(words[i]) == "esac") return Close();
    branches_.Pattern(words[i], variables_);
  }
}

absl::Status ScriptReader::ReadCommand(const std::vector<ShellCommand>& commands, size_t place,
                                       int inner_lines) {
  const ShellCommand& command = commands[place];
  ShellRun run = conditions_.RunOf(command.joint);
  if (ReadSign(command, run)) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(Leading leading, ReadLeading(commands, place, run));
  if (leading.is_whole) return absl::OkStatus();
  std::vector<ShellWord> rest(command.words.begin() + static_cast<std::ptrdiff_t>(leading.end),
                              command.words.end());
  const bool is_bare = !conditions_.in_test() && ReadName(rest);
  const std::string first = rest.empty() ? "" : PlainText(rest[0]).value_or("");
  const bool is_call = !is_bare && functions_.count(first) > 0 && !conditions_.in_test();
  const bool is_apart = command.precedes_pipe || command.follows_pipe;
  // A part of a pipeline sets nothing behind it; a function has a scope.
  const ShellRun setting = is_apart ? Within(Here(run), ShellRun::kMaybe) : Here(run);
  // In front of a program they are for that program alone.
  const bool are_for_program = !rest.empty() && !leading.is_declaration;
  // A program in front of `&& return` may fail, though it is expected to succeed elsewhere.
  const bool is_sure = command.joint == ShellJoint::kAfter || conditions_.last().has_value();
  if (leading.is_declaration) {
    PARPLAN_RETURN_IF_ERROR(ExpandDeclared(leading.is_local, setting, leading.assignments));
  }
  if (leading.is_local) SaveLocals(leading.assignments, rest, setting);
  if (!are_for_program) {
    PARPLAN_RETURN_IF_ERROR(setters_.AssignAll(leading.assignments, setting));
  }
  conditions_.Read(command.joint, run, rest, leading.is_negated, branches_.in_condition(),
                   variables_);
  const bool runs_inside = std::any_of(
      leading.assignments.begin(), leading.assignments.end(), [](const Assignment& one) {
        return std::any_of(one.value.pieces.begin(), one.value.pieces.end(),
                           [](const ShellPiece& piece) {
                             return piece.is_variable && absl::StartsWith(piece.text, "(");
                           });
      });
  if (rest.empty() && (leading.has_closer || runs_inside)) conditions_.ForgetLast();
  const bool is_asked =
      is_call && place + 1 < commands.size() && commands[place + 1].joint == ShellJoint::kAnd;
  std::set<std::string> seen;
  if (is_asked && MayFail(first, seen)) conditions_.ForgetSuccess();
  const ShellRun here = Here(run);
  if (here == ShellRun::kNo) return absl::OkStatus();
  const ShellRun leaving = is_sure ? here : Within(here, ShellRun::kMaybe);
  if (first == "return" && !is_call) branches_.Return(leaving);
  if ((first == "break" || first == "continue") && !is_call) {
    branches_.EndLoop(leaving, rest.size() > 1);
  }
  if (IsDeclaration(first) && !is_call) {
    // Behind `command`, or in quotation marks: what it makes local or sets is not followed.
    const std::vector<ShellWord> declared(rest.begin() + 1, rest.end());
    SaveLocals({}, declared, Within(setting, ShellRun::kMaybe));
    PARPLAN_RETURN_IF_ERROR(
        setters_.ReadDeclaration(declared, true, Within(setting, ShellRun::kMaybe)));
  }
  if (leading.is_declaration) {
    PARPLAN_RETURN_IF_ERROR(
        setters_.ReadDeclaration(rest, leading.is_local && !frames_.empty(), setting));
  }
  if ((first == "source" || first == ".") && rest.size() > 1) sourced_.insert(ShownWord(rest[1]));
  if (is_call) {
    if (!is_apart) return Call(rest, leading.assignments, here, inner_lines);
    variables_.OpenScope();
    const absl::Status status = Call(rest, leading.assignments, here, inner_lines);
    variables_.CloseScope();
    return status;
  }
  if (first == "eval") {
    return ReadEvaluated({rest.begin() + 1, rest.end()}, setting, inner_lines);
  }
  setters_.ReadBuiltin(rest, setting);
  if (first == "unset") ReadUnset(rest);
  PARPLAN_RETURN_IF_ERROR(setters_.SetDefaults(rest, setting));
  std::vector<std::string> words;
  for (const ShellWord& word : rest) {
    PARPLAN_RETURN_IF_ERROR(variables_.Expand(word, &words));
  }
  if (!are_for_program || leading.assignments.empty()) return ReadWords(words, inner_lines);
  variables_.OpenScope();
  PARPLAN_RETURN_IF_ERROR(setters_.AssignAll(leading.assignments, here));
  const absl::Status status = ReadWords(words, inner_lines);
  variables_.CloseScope();
  return status;
}

bool ScriptReader::ReadName(std::vector<ShellWord>& words) {
  if (words.empty()) return false;
  if (!PlainText(words[0]).has_value()) {
    const auto known = KnownArguments({words[0]}, 0, variables_);
    if (!known.has_value() || known->empty()) return false;
    const std::string& name = known->front();
    // These are signs and keywords, which a word in quotation marks is not.
    if (name == "((" || name == "[[") return false;
    const bool is_followed = functions_.count(name) > 0 || ChangesShell(name);
    if (!is_followed && name != "command" && name != "builtin") return false;
    std::vector<ShellWord> read;
    for (const std::string& word : *known) {
      ShellWord made;
      made.pieces = {{word, false, !read.empty()}};
      read.push_back(std::move(made));
    }
    words.erase(words.begin());
    words.insert(words.begin(), read.begin(), read.end());
  }
  bool is_bare = false;
  while (words.size() > 1) {
    const std::optional<std::string> first = PlainText(words[0]);
    if ((first != "command" && first != "builtin") || functions_.count(*first) > 0) break;
    is_bare = true;
    const std::string next = PlainText(words[1]).value_or("");
    if (!ChangesShell(next) && next != "command" && next != "builtin") break;
    words.erase(words.begin());
  }
  return is_bare;
}

void ScriptReader::ReadUnset(const std::vector<ShellWord>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::optional<std::string> name = PlainText(words[i]);
    if (!name.has_value()) {
      steps_left_ -= std::min(steps_left_, functions_.size() / 8);
      for (auto& [known, function] : functions_) function.is_certain = false;
      return;
    }
    if (const auto function = functions_.find(*name); function != functions_.end()) {
      function->second.is_certain = false;
    }
    if (frames_.empty() || frames_.back().count(*name) > 0) continue;
    // That of a caller: the one around it shows again.
    for (auto& frame : frames_) {
      const auto local = frame.find(*name);
      if (local == frame.end()) continue;
      local->second = std::nullopt;
      variables_.Forget(*name);
    }
  }
}

bool ScriptReader::ReadSign(const ShellCommand& command, ShellRun run) {
  const std::optional<std::string> sign =
      command.words.empty() ? std::nullopt : PlainText(command.words[0]);
  if (branches_.in_patterns() && sign != "esac") {
    if (sign == ")") {
      branches_.EndPatterns();
    } else if (sign == "(") {
      branches_.OpenPatterns();
    } else {
      for (const ShellWord& word : command.words) branches_.Pattern(word, variables_);
    }
    return true;
  }
  if (sign == ";;" || sign == ";&" || sign == ";;&") {
    branches_.EndArm(sign == ";&");
    if (sign == ";;&") branches_.TryFurtherArms();
    return true;
  }
  if (sign != "(" && sign != ")") return false;
  // A group in a test changes how its parts are joined.
  if (conditions_.in_test()) {
    conditions_.ForgetTest();
  } else if (sign == "(") {
    branches_.OpenSubshell(Here(run));
    variables_.OpenScope();
  } else {
    Close();
    conditions_.ForgetLast();
  }
  return true;
}

void ScriptReader::OpenApart() {
  branches_.SetApart();
  variables_.OpenScope();
}

void ScriptReader::Close() {
  if (branches_.in_subshell()) variables_.CloseScope();
  branches_.Close();
}

bool ScriptReader::ReadKeyword(const std::string& word, ShellRun run) {
  static const auto* const closing = new std::set<std::string>({"fi", "done", "esac", "}"});
  static const auto* const between =
      new std::set<std::string>({"do", "time", "exec", "export", "declare", "local", "readonly",
                                 "typeset", "-a", "-x", "-r"});
  if (word == "if") {
    branches_.OpenIf(Here(run));
  } else if (word == "elif") {
    branches_.Elif();
  } else if (word == "then") {
    branches_.Then(conditions_.last());
    conditions_.EndTest();
  } else if (word == "else") {
    branches_.Else();
  } else if (word == "case") {
    // `ReadCase` opens it.
    return true;
  } else if (word == "{") {
    branches_.OpenGroup(Here(run));
  } else if (closing->count(word) > 0) {
    Close();
  } else {
    return between->count(word) > 0;
  }
  return true;
}

std::vector<std::string>::const_iterator ScriptReader::ProgramIn(
    const std::vector<std::string>& words) {
  return std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return absl::EndsWith(word, ".py") && !absl::StartsWith(word, "-") &&
           word.find_first_of(" \t\n") == std::string::npos;
  });
}

absl::Status ScriptReader::ReadWords(const std::vector<std::string>& words, int inner_lines) {
  // These print what they are given.
  if (!words.empty() && (words[0] == "echo" || words[0] == "printf")) return absl::OkStatus();
  const auto program = ProgramIn(words);
  if (program != words.end()) {
    LaunchCommand command;
    command.program = *program;
    for (auto word = program + 1; word != words.end(); ++word) {
      if (variables_.IsLeftOut(*word)) {
        left_out_.insert(*word);
      } else {
        command.arguments.push_back(*word);
      }
    }
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
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::StrContains(words[i], ".py ") && !absl::StrContains(words[i], ".py\n")) continue;
    const ShellVariables::Positions positions = variables_.SavePositions();
    // Behind the text of `bash -c` stand its name and its arguments.
    variables_.EnterShell(i + 2 < words.size());
    PARPLAN_RETURN_IF_ERROR(ReadInner(words[i], inner_lines + 1));
    variables_.RestorePositions(positions);
  }
  return absl::OkStatus();
}

absl::StatusOr<LaunchCommand> ReadLaunchScript(const NamedText& file,
                                               absl::string_view required_argument) {
  if (file.text.size() > kMaxImportBytes) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  return ScriptReader(file, required_argument).Read();
}

}  // namespace parplan
