#include "base/service/shell/completion/bash_completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace parplan::shell {
namespace {

// The part that is the same for every program; NAME stands for it as an identifier. Bash gives
// `--format=js` as three words, since `=` breaks words.
constexpr char kWalk[] = R"sh(
_NAME() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command='' at=1 kind
  COMPREPLY=()
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  while (( at < COMP_CWORD )); do
    local given=${COMP_WORDS[at]}
    if [[ $given == -* ]]; then
      if [[ ${COMP_WORDS[at+1]:-} == '=' ]]; then
        (( at += 2 ))
      elif [[ $(_NAME_value "$command" "$given") != none ]]; then
        (( at += 1 ))
      fi
    elif [[ " $(_NAME_commands "$command") " == *" $given "* ]]; then
      command=${command:+$command }$given
    fi
    (( at += 1 ))
  done
  kind=none
  if [[ $previous == -* ]]; then kind=$(_NAME_value "$command" "$previous"); fi
  if [[ $kind == none && $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_NAME_flags "$command")" -- "$word")
    return
  fi
  if [[ $kind == none ]]; then
    local commands
    commands=$(_NAME_commands "$command")
    if [[ -n $commands ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
      return
    fi
    kind=$(_NAME_value "$command" '')
  fi
  case $kind in
    file)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
    'words '*) mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$word") ;;
  esac
}
complete -F _NAME PROGRAM
)sh";

// The answer of `_NAME_value` for a flag.
std::string KindWord(const CommandValue& value) {
  switch (value.kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kChoice:
      return absl::StrCat("words ", absl::StrJoin(value.choices, " "));
    case ValueKind::kFile:
      return "file";
    case ValueKind::kOther:
      return "other";
  }
  return "none";
}

std::string CommandsFunction(const std::string& name, const std::vector<CommandNode>& tree) {
  std::string text = absl::StrCat("_", name, "_commands() {\n  case $1 in\n");
  for (const CommandNode& node : tree) {
    if (node.commands.empty()) continue;
    absl::StrAppend(&text, "    '", node.path, "') echo '", absl::StrJoin(node.commands, " "),
                    "' ;;\n");
  }
  return absl::StrCat(text, "  esac\n}\n");
}

std::string FlagsFunction(const std::string& name, const std::vector<CommandNode>& tree) {
  std::string text = absl::StrCat("_", name, "_flags() {\n  case $1 in\n");
  for (const CommandNode& node : tree) {
    std::vector<std::string> names;
    for (const CommandValue& flag : node.flags) {
      names.insert(names.end(), flag.names.begin(), flag.names.end());
    }
    absl::StrAppend(&text, "    '", node.path, "') echo '", absl::StrJoin(names, " "), "' ;;\n");
  }
  return absl::StrCat(text, "  esac\n}\n");
}

std::string ValueFunction(const std::string& name, const std::vector<CommandNode>& tree) {
  std::string text = absl::StrCat("_", name, "_value() {\n  case \"$1:$2\" in\n");
  for (const CommandNode& node : tree) {
    for (const CommandValue& flag : node.flags) {
      if (flag.kind == ValueKind::kNone) continue;
      std::vector<std::string> patterns;
      for (const std::string& flag_name : flag.names) {
        patterns.push_back(absl::StrCat("'", node.path, ":", flag_name, "'"));
      }
      absl::StrAppend(&text, "    ", absl::StrJoin(patterns, " | "), ") echo '", KindWord(flag),
                      "' ;;\n");
    }
    if (!node.positionals.empty()) {
      absl::StrAppend(&text, "    '", node.path, ":') echo '", KindWord(node.positionals.front()),
                      "' ;;\n");
    }
  }
  return absl::StrCat(text, "    *) echo none ;;\n  esac\n}\n");
}

}  // namespace

std::string BashCompletion(const std::string& program, const std::vector<CommandNode>& tree) {
  const std::string name = absl::StrReplaceAll(program, {{"-", "_"}});
  return absl::StrCat(CommandsFunction(name, tree), FlagsFunction(name, tree),
                      ValueFunction(name, tree),
                      absl::StrReplaceAll(kWalk, {{"NAME", name}, {"PROGRAM", program}}));
}

}  // namespace parplan::shell
