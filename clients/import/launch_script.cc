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
    size_t begin = 0;
    for (; begin < command.size(); ++begin) {
      const ShellWord& word = command[begin];
      if (const std::optional<Assignment> assignment = AssignmentOf(word)) {
        PARPLAN_RETURN_IF_ERROR(Assign(*assignment));
        continue;
      }
      const std::optional<std::string> text = PlainText(word);
      if (!text.has_value() || !ReadKeyword(*text)) break;
      if (*text == "for" || *text == "select") {
        const auto name = begin + 1 < command.size() ? PlainText(command[begin + 1]) : std::nullopt;
        if (name.has_value()) variables_.Forget(*name);
        return absl::OkStatus();
      }
    }
    std::vector<std::string> words;
    for (; begin < command.size(); ++begin) {
      const absl::Status status = variables_.Expand(command[begin], &words);
      if (!status.ok()) return Fault(status.message());
    }
    return ReadWords(words, inner_lines);
  }

  // Counts branches. Returns whether another command may follow the word.
  bool ReadKeyword(const std::string& word) {
    static const auto* const opening =
        new std::set<std::string>({"if", "for", "select", "while", "until", "case", "{"});
    static const auto* const closing = new std::set<std::string>({"fi", "done", "esac", "}"});
    static const auto* const between = new std::set<std::string>(
        {"then", "else", "elif", "do", "!", "time", "exec", "export", "declare", "local",
         "readonly", "typeset", "-a", "-x", "-r", "-i", "eval"});
    if (opening->count(word) > 0) {
      ++branches_;
      return true;
    }
    if (closing->count(word) > 0) {
      branches_ = std::max(branches_ - 1, 0);
      return true;
    }
    return between->count(word) > 0;
  }

  absl::Status Assign(const Assignment& assignment) {
    if (branches_ > 0) {
      variables_.Forget(assignment.name);
      return absl::OkStatus();
    }
    const absl::Status status =
        variables_.Assign(assignment.name, assignment.appends, assignment.value);
    return status.ok() ? status : Fault(status.message());
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
  int branches_ = 0;
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
