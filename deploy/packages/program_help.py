"""The text that a program of ours prints with --help, as data."""
import dataclasses
import os
import re
import socket
import subprocess

_HEADING = re.compile(r"^([A-Z][\w -]*):$")


@dataclasses.dataclass
class Option:
    """One line of help: `--format TEXT:{text,json}` and what it means."""
    usage: str
    help: str

    @property
    def names(self):
        first = self.usage.split(" ")[0]
        names = [re.sub(r"\{.*\}", "", name) for name in first.split(",")]
        return [name for name in names if name.startswith("-")]


@dataclasses.dataclass
class Help:
    """The help of a program or of one of its commands."""
    name: str
    summary: str
    usage: str
    options: dict  # Of a heading: [Option].
    commands: list  # [(name, help)]
    footer: list  # Lines.


def run_help(program, words):
    """Whatever the machine's own names are, the text is the same."""
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True,
                          env={"PATH": os.environ["PATH"], "HOME": "~"})
    text = done.stdout
    host = socket.gethostname()
    for own in (host, re.sub(r"[^a-z0-9]", "-", host.split(".")[0].lower())):
        text = re.sub(rf"=({re.escape(own)})(?=\s|$)", "=HOST", text)
    return text


_COLUMN = 30


def _split_option(line, following):
    """The columns of a line of help: what is typed, and what it means. CLI11 puts the latter at a
    column of its own, on the following line where there is no room."""
    if len(line) <= _COLUMN or following.startswith(" " * _COLUMN):
        return line.strip(), ""
    return line[:_COLUMN].strip(), line[_COLUMN:].strip()


def parse(name, text):
    lines = text.splitlines()
    usage_at = next(number for number, line in enumerate(lines) if line.startswith("Usage: "))
    summary = " ".join(lines[:usage_at]).strip()
    result = Help(name, summary, lines[usage_at][len("Usage: "):], {}, [], [])
    heading, at = None, usage_at + 1
    while at < len(lines):
        line = lines[at]
        found = _HEADING.match(line)
        if found and at + 1 < len(lines) and re.match(r"  \S", lines[at + 1]) and \
                found.group(1) not in ("Example", "Examples", "Exit codes"):
            heading = found.group(1)
        elif heading and line.startswith(" " * _COLUMN):
            _continue(result, heading, line.strip())
        elif heading and re.match(r"  \S", line):
            usage, meaning = _split_option(line, "".join(lines[at + 1:at + 2]))
            if heading == "Subcommands":
                result.commands.append((usage, meaning))
            else:
                result.options.setdefault(heading, []).append(Option(usage, meaning))
        elif line.strip():
            result.footer = lines[at:]
            break
        at += 1
    while result.footer and not result.footer[-1].strip():
        result.footer.pop()
    return result


def _continue(result, heading, text):
    """A line of help that did not find room beside its option."""
    if heading == "Subcommands":
        name, meaning = result.commands.pop()
        result.commands.append((name, f"{meaning} {text}".strip()))
    else:
        option = result.options[heading][-1]
        option.help = f"{option.help} {text}".strip()


def read(program, name, words=()):
    return parse(" ".join((name, *words)), run_help(program, words))
