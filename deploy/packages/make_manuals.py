#!/usr/bin/python3
"""Manual pages of the programs, from what they say with --help, and their shell completion.

    make_manuals.py --version X.Y.Z --out FOLDER --program PATH...

Writes, below a folder for each package, man/man1, bash-completion/completions and
fish/vendor_completions.d, and beside these changelog.Debian.gz. The same programs give the same
bytes; dates are those of SOURCE_DATE_EPOCH.
"""
import argparse
import email.utils
import gzip
import os
import pathlib
import re
import subprocess
import time

import program_help

PACKAGES = {"parplan-server": "parplan-server", "planctl": "parplan-client",
            "parplan-agent": "parplan-agent", "parplan-agent-probe": "parplan-agent",
            "parplan-exec": "parplan-executor", "parplan-sidecar": "parplan-sidecar"}
# Footers have these headings, alone on a line or before a colon and the text.
SECTIONS = {"Example": "EXAMPLES", "Examples": "EXAMPLES", "Signals": "SIGNALS",
            "Exit codes": "EXIT STATUS", "Exit status": "EXIT STATUS"}


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def option_lines(options):
    lines = []
    for option in options:
        lines += [".TP", f".B {escape(option.usage)}", escape(option.help)]
    return lines


def footer_lines(footer):
    """Indented lines stay as they are; others are text, under the headings they begin with."""
    lines, verbatim = [], False
    for line in footer:
        indented = line.startswith("  ")
        if verbatim and not indented:
            lines.append(".fi")
        if indented and not verbatim:
            lines.append(".nf")
        verbatim = indented
        heading = re.match(r"(%s)(:| *$)\s*(.*)$" % "|".join(SECTIONS), line)
        if heading:
            section = f".SH {SECTIONS[heading.group(1)]}"
            lines.append(section)
            if heading.group(3):
                lines.append(escape(heading.group(3)))
        elif indented:
            lines.append(escape(line[2:]))
        elif line.strip():
            lines += [".PP", escape(line.strip())]
    if verbatim:
        lines.append(".fi")
    return lines


def body_lines(text):
    """Options and footer of one command."""
    lines = []
    for heading, options in text.options.items():
        lines += [f".SH {heading.upper()}", *option_lines(options)]
    return lines


def nested_lines(program, name, words):
    """The commands below a command, each with its options."""
    text = program_help.read(program, name, words)
    lines = [f".SS {escape(' '.join((name, *words)))}", escape(text.summary)]
    for options in text.options.values():
        lines += option_lines([one for one in options if "--help" not in one.names])
    for command, _ in text.commands:
        lines += nested_lines(program, name, (*words, command))
    return lines


def page(program, name, version, words, see_also):
    text = program_help.read(program, name, words)
    title = "-".join((name, *words))
    summary = text.summary.rstrip(".")
    summary = summary[:1].lower() + summary[1:]
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    lines = [f'.TH {escape(title).upper()} 1 "{date}" "parplan {version}" "parplan"',
             ".SH NAME", f"{escape(title)} \\- {escape(summary)}",
             ".SH SYNOPSIS", f".B {escape(text.usage)}", *body_lines(text)]
    if text.commands:
        lines.append(".SH COMMANDS")
        for command, meaning in text.commands:
            if words:
                lines += nested_lines(program, name, (*words, command))
            else:
                lines += [".TP", f".BR {escape(f'{name}-{command}')} (1)", escape(meaning)]
    lines += footer_lines(text.footer)
    others = [f".BR {escape(other)} (1)" for other in see_also if other != title]
    lines += [".SH SEE ALSO", *(f"{other}," for other in others[:-1]), *others[-1:]]
    return "\n".join(lines) + "\n"


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def write_gzip(path, text):
    write(path, gzip.compress(text.encode(), 9, mtime=0))


def changelog(version):
    date = email.utils.formatdate(int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    return (f"parplan ({version}-1) unstable; urgency=medium\n\n"
            "  * What users notice is in CHANGELOG.md of the source.\n\n"
            f" -- The parplan authors <parplan@example.org>  {date.replace('-0000', '+0000')}\n")


def make(program, names, version, out):
    name = program.name
    folder = out / PACKAGES[name]
    others = sorted(one for one in names)
    write_gzip(folder / "man" / "man1" / f"{name}.1.gz", page(program, name, version, (), others))
    top = program_help.read(program, name)
    for command, _ in top.commands:
        write_gzip(folder / "man" / "man1" / f"{name}-{command}.1.gz",
                   page(program, name, version, (command,), [name]))
    for shell, path in (("bash", f"bash-completion/completions/{name}"),
                        ("fish", f"fish/vendor_completions.d/{name}.fish")):
        script = subprocess.run([program, "--completion", shell], capture_output=True, check=True)
        write(folder / path, script.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, action="append", required=True)
    flags = parser.parse_args()
    names = [program.name for program in flags.program]
    for program in flags.program:
        make(program.resolve(), names, flags.version, flags.out)
    write_gzip(flags.out / "changelog.Debian.gz", changelog(flags.version))


if __name__ == "__main__":
    main()
