"""Completion in bash for programs that do not write their own: flags, their choices, files, and
one level of commands."""
import program_help

_SCRIPT = r"""# bash completion of {program}; made from its --help.
_{name}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command='' one
  COMPREPLY=()
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $one in {commands_pattern}) command=$one; break ;; esac
  done
  case "$command:$previous" in
{values}
  esac
  if [[ $word != -* && -z $command && -n '{commands}' ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{commands}' -- "$word")
    return
  fi
  case $command in
{flags}
  esac
}}
complete -F _{name} {program}
"""

_FILES = "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")"


def _values(command, text):
    lines = []
    for options in text.options.values():
        for option in options:
            if not option.names or not option.takes_value:
                continue
            pattern = " | ".join(f"'{command}:{name}'" for name in option.names)
            if option.choices:
                action = (f"mapfile -t COMPREPLY < <(compgen -W '{' '.join(option.choices)}' "
                          '-- "$word")')
            elif option.may_be_path:
                action = _FILES
            else:
                action = ":"
            lines.append(f"    {pattern}) {action}; return ;;")
    return lines


def _flags(command, text):
    names = [name for options in text.options.values() for option in options
             for name in option.names]
    return f"    '{command}') mapfile -t COMPREPLY < <(compgen -W '{' '.join(names)}' -- \"$word\") ;;"


def script(program, name):
    top = program_help.read(program, name)
    texts = {"": top}
    for command, _ in top.commands:
        texts[command] = program_help.read(program, name, (command,))
    commands = [command for command in texts if command]
    return _SCRIPT.format(
        program=name, name=name.replace("-", "_"), commands=" ".join(commands),
        commands_pattern=" | ".join(f"'{command}'" for command in commands) or "''",
        values="\n".join(line for command, text in texts.items()
                         for line in _values(command, text)) or "    '') ;;",
        flags="\n".join(_flags(command, text) for command, text in texts.items()))
