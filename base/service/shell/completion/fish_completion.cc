#include "base/service/shell/completion/fish_completion.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace parplan::shell {
namespace {

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// Returns fish's condition that the words given so far lead to `node`.
std::string Condition(const CommandNode& node) {
  if (node.path.empty()) return "__fish_use_subcommand";
  std::vector<std::string> seen;
  for (const absl::string_view word : absl::StrSplit(node.path, ' ')) {
    seen.push_back(absl::StrCat("__fish_seen_subcommand_from ", word));
  }
  std::string condition = absl::StrJoin(seen, "; and ");
  if (!node.commands.empty()) {
    absl::StrAppend(&condition, "; and not __fish_seen_subcommand_from ",
                    absl::StrJoin(node.commands, " "));
  }
  return condition;
}

std::string HelpOf(const std::vector<CommandNode>& tree, const std::string& path) {
  for (const CommandNode& node : tree) {
    if (node.path == path) return node.help;
  }
  return "";
}

}  // namespace

std::string FishCompletion(const std::string& program, const std::vector<CommandNode>& tree) {
  std::string text;
  for (const CommandNode& node : tree) {
    const std::string start =
        absl::StrCat("complete -c ", program, " -n ", Quoted(Condition(node)));
    for (const std::string& command : node.commands) {
      const std::string path = node.path.empty() ? command : absl::StrCat(node.path, " ", command);
      absl::StrAppend(&text, start, " -f -a ", command, " -d ", Quoted(HelpOf(tree, path)), "\n");
    }
    for (const CommandValue& flag : node.flags) {
      absl::StrAppend(&text, start);
      for (const std::string& name : flag.names) {
        const bool is_long = absl::StartsWith(name, "--");
        absl::StrAppend(&text, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
      }
      if (flag.kind == ValueKind::kChoice) {
        absl::StrAppend(&text, " -x -a ", Quoted(absl::StrJoin(flag.choices, " ")));
      } else if (flag.kind == ValueKind::kFile) {
        absl::StrAppend(&text, " -r -F");
      } else if (flag.kind == ValueKind::kOther) {
        absl::StrAppend(&text, " -x");
      }
      absl::StrAppend(&text, " -d ", Quoted(flag.help), "\n");
    }
  }
  return text;
}

}  // namespace parplan::shell
