// The part of `ScriptReader` that follows functions, loops and texts within the script.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/script_reader.h"

namespace parplan {
namespace {

// Command lines inside words of command lines: `srun bash -c "torchrun ..."` has one.
constexpr int kMaxInnerLines = 4;
// Calls inside of one another; those that are deeper are not followed.
constexpr size_t kMaxCalls = 16;

}  // namespace

absl::StatusOr<LaunchCommand> ScriptReader::TakeFound() {
  LaunchCommand command = std::move(found_.front());
  for (size_t i = 1; i < found_.size(); ++i) {
    // Both branches of a test may start the same, with another launcher.
    if (found_[i].program != command.program || found_[i].arguments != command.arguments) {
      return Fault(absl::StrCat("starts ", found_.size(), " Python programs with ",
                                required_argument_, " (", command.program, ", ", found_[i].program,
                                "); leave one"));
    }
    if (found_[i].device_count != command.device_count) command.device_count = std::nullopt;
  }
  PARPLAN_RETURN_IF_ERROR(CheckVariables(file_, &command));
  const auto note = [&command](absl::string_view begin, const std::set<std::string>& names,
                               absl::string_view end) {
    if (names.empty()) return;
    command.notes.push_back(absl::StrCat(begin, absl::StrJoin(names, ", "), end));
  };
  note("Variables that the file asks for in a test and does not set count as empty: ",
       variables_.taken_as_empty(), ".");
  note("Variables that the file sets only in branches that it does not take count as empty: ",
       left_out_, ".");
  note("Not read, though the script sources them: ", sourced_, "; what they set is not known.");
  note("Not read, though the script evaluates it: ", evaluated_, "; what that sets is not known.");
  return command;
}

absl::Status ScriptReader::ReadInner(absl::string_view text, int inner_lines) {
  if (inner_lines > kMaxInnerLines) return absl::OkStatus();
  std::optional<std::vector<ShellCommand>> commands = SplitShellText(text);
  if (!commands.has_value() || MarkGroups(*commands).has_value()) return absl::OkStatus();
  return ReadCommands(*commands, inner_lines);
}

absl::Status ScriptReader::ReadEvaluated(const std::vector<ShellWord>& words, ShellRun run,
                                         int inner_lines) {
  if (run == ShellRun::kNo) return absl::OkStatus();
  std::vector<std::string> texts;
  for (const ShellWord& word : words) {
    PARPLAN_RETURN_IF_ERROR(variables_.Expand(word, &texts));
  }
  std::optional<std::vector<ShellCommand>> commands = SplitShellText(absl::StrJoin(texts, " "));
  const bool is_read =
      inner_lines < kMaxInnerLines && commands.has_value() && !MarkGroups(*commands).has_value();
  if (!is_read) {
    variables_.ForgetAll();
    variables_.ForgetPositions();
    return absl::OkStatus();
  }
  for (const ShellCommand& command : *commands) {
    const ShellWord& first = command.words.front();
    if (!first.pieces.empty() && first.pieces[0].is_variable) {
      // Any variable may be set, as by `$NAME=4` where NAME is not known.
      const bool may_assign = first.pieces.size() > 1 && !first.pieces[1].is_variable &&
                              absl::StrContains(first.pieces[1].text, '=');
      if (may_assign) variables_.ForgetAll();
      if (!may_assign) evaluated_.insert(ShownWord(first));
    }
  }
  const size_t depth = branches_.depth();
  branches_.OpenGroup(run);
  const absl::Status status = ReadCommands(*commands, inner_lines + 1);
  while (branches_.depth() > depth) Close();
  return status;
}

absl::Status ScriptReader::ReadCommands(const std::vector<ShellCommand>& commands,
                                        int inner_lines) {
  for (size_t i = 0; i < commands.size();) {
    PARPLAN_RETURN_IF_ERROR(CountSteps(1));
    std::optional<ShellFunction> function;
    if (!branches_.in_patterns() && !conditions_.in_test()) function = FunctionAt(commands, i);
    if (!function.has_value()) {
      PARPLAN_RETURN_IF_ERROR(ReadCommand(commands, i, inner_lines));
      ++i;
      continue;
    }
    PARPLAN_RETURN_IF_ERROR(CountBody(function->body));
    if (!function->prefix.words.empty()) {
      PARPLAN_RETURN_IF_ERROR(ReadCommand({function->prefix}, 0, inner_lines));
    }
    i = function->end;
    Define(*std::move(function));
  }
  return absl::OkStatus();
}

absl::Status ScriptReader::CountSteps(size_t count) {
  steps_left_ -= std::min(steps_left_, count);
  if (steps_left_ > 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "has too many commands, those of functions counted for each call");
}

absl::Status ScriptReader::CountBody(const std::vector<ShellCommand>& body) {
  size_t words = 0;
  for (const ShellCommand& command : body) words += command.words.size();
  return CountSteps(body.size() + words / 64);
}

void ScriptReader::Define(ShellFunction function) {
  const ShellRun run = branches_.run();
  if (run == ShellRun::kNo) return;
  Function& known = functions_[function.name];
  // Only a run knows which of two definitions in branches counts.
  known.is_certain = run == ShellRun::kYes;
  // A process of its own takes its definition with it, and another one counts again.
  if (branches_.in_any_subshell() && !known.names.empty()) known.is_certain = false;
  known.names.push_back(NamesIn(function.body, 0, function.body.size()));
  known.body = std::move(function.body);
}

void ScriptReader::ForgetNames(const NamesInCommands& names, std::set<std::string>& seen) {
  // Many calls of a function with many names are much work too.
  steps_left_ -= std::min(steps_left_, 1 + (names.names.size() + names.programs.size()) / 8);
  if (steps_left_ == 0) return;
  if (names.sets_any) variables_.ForgetAll();
  for (const std::string& name : names.names) variables_.Forget(name);
  for (const std::string& program : names.programs) {
    const auto found = functions_.find(program);
    if (found == functions_.end() || !seen.insert(program).second) continue;
    for (const NamesInCommands& inner : found->second.names) ForgetNames(inner, seen);
  }
}

absl::Status ScriptReader::Call(const std::vector<ShellWord>& words,
                                const std::vector<Assignment>& assignments, ShellRun run,
                                int inner_lines) {
  if (run == ShellRun::kNo) return absl::OkStatus();
  const std::string name = *PlainText(words.front());
  Function& function = functions_[name];
  function.is_called = true;
  std::set<std::string> seen;
  if (!function.is_certain || frames_.size() >= kMaxCalls) {
    for (const NamesInCommands& names : function.names) ForgetNames(names, seen);
    return absl::OkStatus();
  }
  PARPLAN_RETURN_IF_ERROR(CountBody(function.body));
  // `f "$@"` hands the arguments on.
  const bool hands_on = words.size() == 2 && words[1].pieces.size() <= 2 &&
                        !words[1].pieces.empty() && words[1].pieces.back().is_variable &&
                        words[1].pieces.back().text == "@" && words[1].pieces[0].text.empty();
  const bool is_whole = words.size() == 2 && words[1].pieces.size() == 1 &&
                        words[1].pieces[0].is_variable && words[1].pieces[0].text == "@";
  const ShellVariables::Positions positions = variables_.SavePositions();
  // Outside quotation marks they are split, as far as they are known.
  const bool is_split = (hands_on || is_whole) && !words[1].pieces.back().is_quoted;
  if ((!hands_on && !is_whole) || (is_split && positions.are_set)) {
    std::optional<std::vector<std::string>> arguments = KnownArguments(words, 1, variables_);
    if (!arguments.has_value()) {
      // The call itself has the arguments of the program.
      std::vector<std::string> expanded;
      for (const ShellWord& word : words) {
        PARPLAN_RETURN_IF_ERROR(variables_.Expand(word, &expanded));
      }
      if (ProgramIn(expanded) != expanded.end()) {
        for (const NamesInCommands& names : function.names) ForgetNames(names, seen);
        return ReadWords(expanded, inner_lines);
      }
    }
    variables_.SetPositions(std::move(arguments));
    variables_.KnowPositions();
  }
  const std::vector<ShellCommand> body = function.body;
  const size_t depth = branches_.depth();
  const ShellConditions conditions = std::exchange(conditions_, {});
  const size_t found = found_.size();
  branches_.OpenCall(run);
  frames_.emplace_back();
  SaveLocals(assignments, {}, run);
  absl::Status status = setters_.AssignAll(assignments, run);
  if (status.ok()) status = ReadCommands(body, inner_lines);
  while (branches_.depth() > depth) Close();
  for (auto& [local, saved] : frames_.back()) {
    if (local == "$") {
      variables_.ForgetAll();
    } else if (saved.has_value()) {
      variables_.Restore(local, std::move(*saved));
    } else {
      variables_.Forget(local);
    }
  }
  frames_.pop_back();
  std::vector<std::string> expanded;
  variables_.RestorePositions(positions);
  conditions_ = conditions;
  conditions_.ForgetLast();
  if (!status.ok() || found_.size() > found) return status;
  for (const ShellWord& word : words) {
    PARPLAN_RETURN_IF_ERROR(variables_.Expand(word, &expanded));
  }
  return ProgramIn(expanded) != expanded.end() ? ReadWords(expanded, inner_lines)
                                               : absl::OkStatus();
}

void ScriptReader::SaveLocals(const std::vector<Assignment>& assignments,
                              const std::vector<ShellWord>& words, ShellRun run) {
  if (frames_.empty() || run == ShellRun::kNo) return;
  const auto save = [&](const std::string& name) {
    if (frames_.back().count(name) > 0) return;
    frames_.back()[name] =
        run == ShellRun::kYes ? std::optional(variables_.Save(name)) : std::nullopt;
  };
  for (const Assignment& assignment : assignments) save(assignment.name);
  for (const ShellWord& word : words) {
    std::optional<Assignment> assignment = AssignmentOf(word);
    if (!assignment.has_value()) assignment = QuotedAssignmentOf(word);
    if (assignment.has_value()) {
      save(assignment->name);
    } else if (!PlainText(word).has_value()) {
      frames_.back()["$"] = std::nullopt;
    } else if (const std::string name = PlainText(word).value_or("-"); name[0] != '-') {
      save(name);
    }
  }
}

absl::Status ScriptReader::ExpandDeclared(bool is_local, ShellRun run,
                                          std::vector<Assignment>& assignments) {
  if (run == ShellRun::kNo) return absl::OkStatus();
  for (size_t i = 0; i < assignments.size(); ++i) {
    Assignment& assignment = assignments[i];
    // A new local variable has no text before it.
    const bool is_new = is_local && !frames_.empty() && frames_.back().count(assignment.name) == 0;
    if (is_new) assignment.appends = false;
    if (i == 0 || assignment.value.elements.has_value()) continue;
    ShellWord quoted = assignment.value;
    for (ShellPiece& piece : quoted.pieces) piece.is_quoted = true;
    std::vector<std::string> words;
    PARPLAN_RETURN_IF_ERROR(variables_.Expand(quoted, &words));
    assignment.value.pieces = {{absl::StrJoin(words, " "), false, true}};
  }
  return absl::OkStatus();
}

bool ScriptReader::MayFail(const std::string& name, std::set<std::string>& seen) {
  static const char* const deciding[] = {"return", "false", "test", "[", "[[", "((", "!", "let"};
  const auto found = functions_.find(name);
  if (found == functions_.end() || !seen.insert(name).second) return false;
  for (const NamesInCommands& names : found->second.names) {
    steps_left_ -= std::min(steps_left_, 1 + names.programs.size() / 8);
    if (steps_left_ == 0) return true;
    for (const char* const one : deciding) {
      if (names.programs.count(one) > 0) return true;
    }
    for (const std::string& program : names.programs) {
      if (MayFail(program, seen)) return true;
    }
  }
  return false;
}

absl::Status ScriptReader::ReadUncalled() {
  for (bool has_more = true; has_more && found_.empty();) {
    has_more = false;
    std::vector<std::string> names;
    for (const auto& [name, function] : functions_) {
      if (!function.is_called) names.push_back(name);
    }
    for (const std::string& name : names) {
      has_more = true;
      Function& function = functions_[name];
      function.is_called = true;
      const std::vector<ShellCommand> body = function.body;
      PARPLAN_RETURN_IF_ERROR(CountBody(body));
      variables_.SetPositions(std::nullopt);
      branches_.OpenCall(ShellRun::kMaybe);
      PARPLAN_RETURN_IF_ERROR(ReadCommands(body, 0));
      while (branches_.depth() > 0) Close();
    }
  }
  return absl::OkStatus();
}

absl::Status ScriptReader::OpenLoop(const std::vector<ShellCommand>& commands, size_t place,
                                    size_t word, ShellRun run) {
  const std::vector<ShellWord>& words = commands[place].words;
  const std::string keyword = *PlainText(words[word]);
  const ShellRun here = Here(run);
  const bool has_name = keyword == "for" || keyword == "select";
  const std::optional<std::string> name =
      has_name && word + 1 < words.size() ? PlainText(words[word + 1]) : std::nullopt;
  const bool has_values = word + 3 < words.size() && PlainText(words[word + 2]) == "in";
  if (keyword == "for" && name.has_value() && has_values && here != ShellRun::kNo) {
    const auto values = KnownArguments(words, word + 3, variables_);
    if (values.has_value() && values->empty()) {
      branches_.OpenLoop(ShellRun::kNo, true);
      return absl::OkStatus();
    }
    if (values.has_value() && values->size() == 1) {
      ShellWord value;
      value.pieces = {{.text = absl::StrCat(*name, "=")}, {values->front(), false, true}};
      if (const auto assignment = AssignmentOf(value)) {
        PARPLAN_RETURN_IF_ERROR(setters_.Assign(*assignment, here));
        branches_.OpenLoop(here, true);
        return absl::OkStatus();
      }
    }
  }
  const size_t end = EndOfGroup(commands, place, word);
  size_t word_count = 0;
  for (size_t i = place; i < end; ++i) word_count += commands[i].words.size();
  PARPLAN_RETURN_IF_ERROR(CountSteps(end - place + word_count / 64));
  if (here != ShellRun::kNo) {
    std::set<std::string> seen;
    const NamesInCommands names = NamesIn(commands, place, end);
    ForgetNames(names, seen);
    if (names.sets_positions) variables_.ForgetKnownPositions();
    if (name.has_value()) variables_.Forget(*name);
  }
  branches_.OpenLoop(here, false);
  return absl::OkStatus();
}

}  // namespace parplan
