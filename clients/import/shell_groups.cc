#include "clients/import/shell_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/import/shell_words.h"

namespace parplan {
namespace {

// A group that is open, and the word that opened it.
struct OpenGroup {
  absl::string_view opener;
  size_t command = 0;
  size_t word = 0;
  // For `case`: whether this is a place for patterns, whether one was read, and the parentheses
  // that are open in it.
  bool in_patterns = false;
  bool has_pattern = false;
  int parentheses = 0;
};

// A group that has ended.
struct EndedGroup {
  size_t command = 0;
  size_t word = 0;
};

// Returns what closes the group that a keyword opens; empty for other words.
absl::string_view CloserOf(absl::string_view opener) {
  if (opener == "if") return "fi";
  if (opener == "case") return "esac";
  if (opener == "{") return "}";
  if (opener == "(") return ")";
  const bool is_loop =
      opener == "for" || opener == "select" || opener == "while" || opener == "until";
  return is_loop ? "done" : "";
}

// Returns the opener that stands for all which a word needs around it; empty for other words.
absl::string_view OpenerOf(absl::string_view word) {
  if (word == "fi" || word == "then" || word == "elif" || word == "else") return "if";
  if (word == "done" || word == "do") return "for";
  if (word == "esac") return "case";
  if (word == "}") return "{";
  return word == ")" ? "(" : "";
}

// Follows groups command by command.
class GroupWalker {
 public:
  // Reads the command at `place` from its word `first`.
  void Read(const ShellCommand& command, size_t place, size_t first) {
    ended_.clear();
    const std::vector<ShellWord>& words = command.words;
    if (first >= words.size()) return;
    const std::optional<std::string> sign = PlainText(words[first]);
    if (is_in_test_) {
      // Parentheses group the parts of a test.
      is_in_test_ = PlainText(words.back()) != "]]";
      return;
    }
    if (!open_.empty() && open_.back().in_patterns && sign != "esac") {
      ReadPattern(sign.value_or(""));
      return;
    }
    if (sign == ";;" || sign == ";&" || sign == ";;&") {
      if (open_.empty() || open_.back().opener != "case") {
        Fail(*sign, "case");
      } else {
        BeginPatterns(false);
      }
      return;
    }
    for (size_t i = first; i < words.size() && !fault_.has_value(); ++i) {
      const std::string word = PlainText(words[i]).value_or("");
      if (word == "[[") {
        is_in_test_ = PlainText(words.back()) != "]]";
        return;
      }
      if (word == "function") {
        ++i;
      } else if (const absl::string_view closer = CloserOf(word); !closer.empty()) {
        open_.push_back({.opener = CanonicalOpener(word), .command = place, .word = i});
        if (word == "case") {
          const bool has_pattern = words.size() > i + 3;
          const bool is_empty = has_pattern && PlainText(words[i + 3]) == "esac";
          BeginPatterns(has_pattern);
          if (is_empty) Close("esac");
        }
        if (word == "case" || closer == "done") {
          if (word != "while" && word != "until") return;
        }
      } else if (!OpenerOf(word).empty()) {
        Close(word);
      } else if (word != "!" && word != "time" && word != "coproc") {
        return;
      }
    }
  }

  size_t depth() const { return open_.size(); }
  const std::vector<OpenGroup>& open() const { return open_; }
  // The groups that the last command ended.
  const std::vector<EndedGroup>& ended() const { return ended_; }
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  // Loops of all kinds end alike.
  static absl::string_view CanonicalOpener(absl::string_view word) {
    if (word == "if") return "if";
    if (word == "case") return "case";
    if (word == "{") return "{";
    return word == "(" ? "(" : "for";
  }

  void BeginPatterns(bool has_pattern) {
    open_.back().in_patterns = true;
    open_.back().has_pattern = has_pattern;
    open_.back().parentheses = 0;
  }

  void ReadPattern(absl::string_view sign) {
    OpenGroup& group = open_.back();
    if (sign == "(") {
      // The one in front of the patterns of an arm is no group.
      if (group.has_pattern) ++group.parentheses;
      group.has_pattern = true;
    } else if (sign == ")") {
      if (group.parentheses > 0) {
        --group.parentheses;
      } else {
        group.in_patterns = false;
      }
    } else {
      group.has_pattern = true;
    }
  }

  // Closes a group, or checks that a word such as `then` stands in one.
  void Close(absl::string_view word) {
    const absl::string_view opener = OpenerOf(word);
    if (open_.empty() || open_.back().opener != opener) return Fail(word, opener);
    const bool is_end =
        word == "fi" || word == "done" || word == "esac" || word == "}" || word == ")";
    if (!is_end) return;
    ended_.push_back({.command = open_.back().command, .word = open_.back().word});
    open_.pop_back();
  }

  void Fail(absl::string_view word, absl::string_view opener) {
    if (fault_.has_value()) return;
    fault_ = absl::StrCat("has a `", word, "` without `",
                          opener == "for" ? "for` or `while" : opener, "` before it");
  }

  std::vector<OpenGroup> open_;
  std::vector<EndedGroup> ended_;
  bool is_in_test_ = false;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> MarkGroups(std::vector<ShellCommand>& commands) {
  GroupWalker walker;
  for (size_t i = 0; i < commands.size(); ++i) {
    walker.Read(commands[i], i, 0);
    if (walker.fault().has_value()) return walker.fault();
    for (const EndedGroup& group : walker.ended()) {
      const bool is_apart = commands[i].precedes_pipe || commands[group.command].follows_pipe;
      if (is_apart) commands[group.command].words[group.word].is_apart = true;
    }
  }
  if (walker.depth() == 0) return std::nullopt;
  const OpenGroup& group = walker.open().back();
  const std::string opener =
      PlainText(commands[group.command].words[group.word]).value_or(std::string(group.opener));
  return absl::StrCat("does not end what `", opener, "` begins: `", CloserOf(opener),
                      "` is missing");
}

size_t EndOfGroup(const std::vector<ShellCommand>& commands, size_t place, size_t first) {
  GroupWalker walker;
  for (size_t i = place; i < commands.size(); ++i) {
    walker.Read(commands[i], i, i == place ? first : 0);
    if (walker.depth() == 0 || walker.fault().has_value()) return i + 1;
  }
  return commands.size();
}

std::optional<ShellFunction> FunctionAt(const std::vector<ShellCommand>& commands, size_t place) {
  const std::vector<ShellWord>& words = commands[place].words;
  const auto is_sign = [&](size_t at, absl::string_view sign) {
    return at < commands.size() && commands[at].words.size() == 1 &&
           PlainText(commands[at].words[0]) == sign;
  };
  ShellFunction function;
  size_t at = 0;
  // Keywords may stand before it; other words there make it no definition.
  const auto is_keyword = [](const ShellWord& word) {
    const std::string text = PlainText(word).value_or("");
    return text == "then" || text == "else" || text == "do" || text == "{" || text == "}" ||
           text == "fi" || text == "done" || text == "esac";
  };
  while (at + 1 < words.size() && is_keyword(words[at])) ++at;
  if (at >= words.size()) return std::nullopt;
  const bool has_keyword = PlainText(words[at]) == "function" && at + 1 < words.size();
  const size_t name_at = has_keyword ? at + 1 : at;
  const bool has_signs = is_sign(place + 1, "(") && is_sign(place + 2, ")");
  const bool is_last = name_at + 1 == words.size();
  if (!has_keyword && !(is_last && has_signs)) return std::nullopt;
  const std::optional<std::string> name = PlainText(words[name_at]);
  if (!name.has_value() || name == "(" || name == ")") return std::nullopt;
  function.name = *name;
  function.prefix.joint = commands[place].joint;
  function.prefix.words.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at));
  size_t begin = place;
  size_t first = name_at + 1;
  if (is_last) {
    begin = place + (has_signs ? 3 : 1);
    first = 0;
  }
  if (begin >= commands.size()) return std::nullopt;
  function.end = EndOfGroup(commands, begin, first);
  function.body.assign(commands.begin() + static_cast<std::ptrdiff_t>(begin),
                       commands.begin() + static_cast<std::ptrdiff_t>(function.end));
  std::vector<ShellWord>& head = function.body.front().words;
  head.erase(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(first));
  function.body.front().joint = ShellJoint::kAfter;
  return function;
}

}  // namespace parplan
