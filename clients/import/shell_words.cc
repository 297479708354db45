#include "clients/import/shell_words.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/import/shell_expansion.h"

namespace parplan {
namespace {

// The letters between names of variables in `((a += b))`, `let` and `read`.
constexpr char kNoName[] = " \t\n()+-*/%=<>!&|^~?:;,.$[]{}\"'";

// Returns whether `((...))` changes a variable, by `=`, `+=`, `++` and the like.
bool SetsInArithmetic(absl::string_view text) {
  if (absl::StrContains(text, "++") || absl::StrContains(text, "--")) return true;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '=' && text[i + 1] != '=' && !absl::StrContains("=!<>", text[i - 1])) {
      return true;
    }
  }
  return absl::StrContains(text, "<<=") || absl::StrContains(text, ">>=");
}

// Returns `line N` of the first line of a script that has `word`; empty if none has it.
std::string LineWith(absl::string_view text, absl::string_view word) {
  const size_t place = text.find(word);
  if (place == absl::string_view::npos) return "";
  const absl::string_view before = text.substr(0, place);
  return absl::StrCat("line ", 1 + std::count(before.begin(), before.end(), '\n'));
}

// Returns how to say that a variable holds nothing, for the end of an error; empty if `word` is no
// plain variable.
std::string HowToEmpty(absl::string_view word, bool is_array) {
  absl::ConsumePrefix(&word, "$");
  absl::ConsumePrefix(&word, "{");
  const absl::string_view name =
      word.substr(0, std::find_if_not(word.begin(), word.end(), [](char c) {
                       return absl::ascii_isalnum(c) || c == '_';
                     }) - word.begin());
  const absl::string_view rest = word.substr(name.size());
  const bool is_plain = rest.empty() || rest == "}" || rest == "[@]}" || rest == "[*]}";
  if (name.empty() || absl::ascii_isdigit(name[0]) || !is_plain) return "";
  return absl::StrCat(", or a line `", name, is_array ? "=()" : "=\"\"",
                      "` before it if the run has none");
}

}  // namespace

std::optional<std::string> PlainText(const ShellWord& word) {
  if (word.pieces.size() != 1 || word.elements.has_value()) return std::nullopt;
  const ShellPiece& piece = word.pieces[0];
  return piece.is_variable || piece.is_quoted ? std::nullopt : std::optional(piece.text);
}

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

std::optional<Assignment> QuotedAssignmentOf(const ShellWord& word) {
  if (word.pieces.empty() || word.pieces[0].is_variable || !word.pieces[0].is_quoted) {
    return std::nullopt;
  }
  ShellWord plain = word;
  const size_t equals = plain.pieces[0].text.find('=');
  if (equals == std::string::npos) return std::nullopt;
  ShellPiece rest = plain.pieces[0];
  rest.text.erase(0, equals + 1);
  plain.pieces[0].text.resize(equals + 1);
  plain.pieces[0].is_quoted = false;
  plain.pieces.insert(plain.pieces.begin() + 1, rest);
  return AssignmentOf(plain);
}

std::optional<std::string> ElementNameOf(const ShellWord& word) {
  if (word.pieces.empty() || word.pieces[0].is_variable || word.pieces[0].is_quoted) {
    return std::nullopt;
  }
  const std::string& text = word.pieces[0].text;
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isalnum(text[end]) || text[end] == '_')) ++end;
  const bool is_element =
      end > 0 && end < text.size() && text[end] == '[' && !absl::ascii_isdigit(text[0]);
  return is_element ? std::optional(text.substr(0, end)) : std::nullopt;
}

PositionsSet PositionsSetBy(const std::vector<ShellWord>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::optional<std::string> text = PlainText(words[i]);
    // It may be an option.
    if (!text.has_value()) return {.is_set = true, .is_known = false};
    if (*text == "--") return {.is_set = true, .begin = i + 1};
    if (*text == "-") return {.is_set = i + 1 < words.size(), .begin = i + 1};
    if ((*text)[0] != '-' && (*text)[0] != '+') return {.is_set = true, .begin = i};
    // The name of an option stands behind `-o`, also in `-eo`.
    if (absl::StrContains(*text, 'o')) ++i;
  }
  return {};
}

std::string ShownWord(const ShellWord& word) {
  std::string text;
  for (const ShellPiece& piece : word.pieces) {
    absl::StrAppend(&text, piece.is_variable ? "$" : "", piece.text);
  }
  return text;
}

bool IsDeclaration(absl::string_view word) {
  return word == "export" || word == "declare" || word == "local" || word == "readonly" ||
         word == "typeset";
}

bool SetsNames(absl::string_view program) {
  static const auto* const setters = new std::set<std::string>(
      {"read", "mapfile", "readarray", "getopts", "unset", "let", "((", "printf"});
  return setters->count(std::string(program)) > 0;
}

std::set<std::string> NamesSetBy(const std::vector<ShellWord>& words) {
  std::set<std::string> names;
  const std::string first = words.empty() ? "" : PlainText(words[0]).value_or("");
  if (!SetsNames(first)) return names;
  // Those that they set without naming them.
  if (first == "read") names.insert("REPLY");
  if (first == "getopts") names.insert({"OPTARG", "OPTIND"});
  if (first == "mapfile" || first == "readarray") names.insert("MAPFILE");
  for (size_t i = 1; i < words.size(); ++i) {
    if (first == "printf" && PlainText(words[i - 1]) != "-v") continue;
    for (const ShellPiece& piece : words[i].pieces) {
      // Comparisons set nothing.
      if (first == "((" && !SetsInArithmetic(piece.text)) continue;
      for (const absl::string_view name : absl::StrSplit(piece.text, absl::ByAnyChar(kNoName))) {
        if (!name.empty() && !absl::ascii_isdigit(name[0])) names.insert(std::string(name));
      }
    }
  }
  return names;
}

std::optional<int> DeviceCountOf(const std::vector<std::string>& words) {
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

absl::Status CheckVariables(const NamedText& file, LaunchCommand* command) {
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
      const bool is_whole =
          word.find_first_of("/.,:=") == std::string::npos || IsOutputOfCommand(word);
      if (is_array || (is_whole && !follows_name)) {
        // The arguments of the script often decide.
        const bool has_positions = absl::StrContains(file.text, "$1") ||
                                   absl::StrContains(file.text, "${1") ||
                                   absl::StrContains(file.text, "in \"$@\"");
        return ImportError(
            Reason::kSpecInvalid, file.name, LineWith(file.text, word),
            absl::StrCat("does not set `", word,
                         "` as text, and it may hold arguments; write them in its place",
                         HowToEmpty(word, is_array),
                         has_positions ? ", or give the script its own arguments by a line "
                                         "`set -- ARGUMENTS` at its beginning"
                                       : ""));
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

}  // namespace parplan
