#include "base/service/shell/completion/command_tree.h"

#include <CLI/CLI.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace parplan::shell {
namespace {

// CLI11 names types as `TEXT:{json,text}`, `INT:POSITIVE`, `FILE`.
void SetKind(const CLI::Option& option, CommandValue& value) {
  if (option.get_items_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open != std::string::npos && close != std::string::npos && close > open) {
    value.kind = ValueKind::kChoice;
    for (const absl::string_view choice :
         absl::StrSplit(type.substr(open + 1, close - open - 1), ',')) {
      value.choices.emplace_back(absl::StripAsciiWhitespace(choice));
    }
    return;
  }
  const bool may_be_path = absl::StartsWith(type, "TEXT") || absl::StartsWith(type, "FILE") ||
                           absl::StartsWith(type, "DIR") || absl::StartsWith(type, "PATH");
  value.kind = may_be_path ? ValueKind::kFile : ValueKind::kOther;
}

CommandValue ValueOf(const CLI::Option& option) {
  CommandValue value;
  for (const std::string& name : option.get_snames()) value.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) value.names.push_back("--" + name);
  value.help = option.get_description();
  SetKind(option, value);
  return value;
}

void AddNode(const CLI::App& app, const CommandNode& above, const std::string& name,
             std::vector<CommandNode>& nodes) {
  CommandNode node;
  node.path = above.path.empty() ? name : absl::StrCat(above.path, " ", name);
  node.help = app.get_description();
  const bool falls_through = app.get_parent() != nullptr && app.get_fallthrough();
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? node.positionals : node.flags).push_back(ValueOf(*option));
  }
  if (falls_through) {
    for (const CommandValue& flag : above.flags) {
      // `--help` is everybody's own, and the version the program's.
      const bool is_own = flag.names.back() == "--help" || flag.names.back() == "--version";
      if (!is_own) node.flags.push_back(flag);
    }
  }
  const auto commands =
      app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
  for (const CLI::App* const command : commands) node.commands.push_back(command->get_name());
  nodes.push_back(node);
  for (const CLI::App* const command : commands) {
    AddNode(*command, node, command->get_name(), nodes);
  }
}

}  // namespace

std::vector<CommandNode> CommandTree(const Command& program) {
  std::vector<CommandNode> nodes;
  AddNode(program.app(), CommandNode(), "", nodes);
  return nodes;
}

}  // namespace parplan::shell
