#!/usr/bin/python3
"""Counts sentences that STYLE.md asks to avoid, in the comments of C++ and CUDA outside tests/.

    dialect_counts.py --source FOLDER                    prints counts by pattern and folder
    dialect_counts.py --source FOLDER --list PATTERN     prints each place of one pattern
    dialect_counts.py --source FOLDER --check CEILINGS   fails if a count is above its ceiling
    dialect_counts.py --source FOLDER --write CEILINGS   lowers the ceilings to today's counts

FOLDER may be a checkout of any age, so that counts before and after a change can be compared.
A block is a run of lines that hold nothing but a `//` comment. `begins:` patterns count blocks
by their first word; `says:` patterns count each occurrence anywhere in a block.
"""
import argparse
import collections
import pathlib
import re
import sys

SUFFIXES = {".h", ".cc", ".c", ".cu", ".cpp"}
NOT_COUNTED = {"tests", "build", ".git"}
COMMENT = re.compile(r"\s*//+\s?(.*)")
FIRST_WORDS = ("Of", "What", "Where", "As", "Whose", "Which")
PHRASES = {
    "says: besides": re.compile(r"\bbesides\b", re.IGNORECASE),
    "says: in the place of": re.compile(r"\bin the place of\b", re.IGNORECASE),
    "says: nobody, somebody": re.compile(r"\b(?:nobody|somebody)\b", re.IGNORECASE),
    "says: tell, tells": re.compile(r"\btells?\b", re.IGNORECASE),
    "says: told": re.compile(r"\btold\b", re.IGNORECASE),
}
PATTERNS = [f"begins: {word}" for word in FIRST_WORDS] + list(PHRASES)


def sources(root):
    """Yields the sources outside tests/, each with its path below `root`, in order of path."""
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.suffix in SUFFIXES and relative.parts[0] not in NOT_COUNTED and path.is_file():
            yield path, relative


def comment_blocks(text):
    """Yields the number of the first line and the text of each block."""
    first, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = COMMENT.fullmatch(line)
        if comment:
            first = first if words else number
            words.append(comment.group(1))
        elif words:
            yield first, " ".join(words)
            words = []


def matches(block):
    """Yields a pattern's name once for each of its occurrences in a block."""
    first = re.match(r"\W*(\w+)", block)
    if first and first.group(1) in FIRST_WORDS:
        yield f"begins: {first.group(1)}"
    for name, phrase in PHRASES.items():
        for _ in phrase.finditer(block):
            yield name


def folder_of(relative):
    """The top-level folder, or for the planner and the executor the one below it."""
    parts = relative.parts[:-1]
    depth = 2 if parts and parts[0] in ("planner", "clients", "executor", "server") else 1
    return "/".join(parts[:depth])


def count(root):
    """Returns the number of blocks and, for each pattern, its places as (folder, place, block)."""
    block_count, found = 0, {name: [] for name in PATTERNS}
    for path, relative in sources(root):
        for line, block in comment_blocks(path.read_text(encoding="utf-8")):
            block_count += 1
            for name in matches(block):
                found[name].append((folder_of(relative), f"{relative}:{line}", block))
    return block_count, found


def read_ceilings(path):
    """Reads lines `<count> <pattern>`; `#` begins a comment."""
    ceilings = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, name = line.split(maxsplit=1)
            ceilings[name] = int(number)
    return ceilings


def write_ceilings(path, found):
    """Writes today's counts; a ceiling that is already lower stays."""
    old = read_ceilings(path) if path.exists() else {}
    lines = ["# The most often that each pattern of dialect_counts.py may occur in comments outside",
             "# tests/. Numbers only go down: dialect_counts.py --write lowers them."]
    for name in PATTERNS:
        lines.append(f"{min(len(found[name]), old.get(name, len(found[name])))} {name}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def print_table(block_count, found):
    """Prints one row for each pattern: all occurrences, then those of each folder."""
    print(f"{block_count} comment blocks")
    for name in PATTERNS:
        folders = collections.Counter(folder for folder, _, _ in found[name])
        parts = ", ".join(f"{folder} {number}" for folder, number in folders.most_common())
        print(f"{len(found[name]):5}  {name:24} {parts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--list", choices=PATTERNS)
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    flags = parser.parse_args()
    block_count, found = count(flags.source.resolve())
    if block_count == 0:
        sys.exit(f"no comments below {flags.source}: --source must be the root of the repository")
    if flags.list:
        for _, place, block in found[flags.list]:
            print(f"{place}: {block[:100]}")
        return 0
    print_table(block_count, found)
    if flags.write:
        write_ceilings(flags.write, found)
    failures = 0
    if flags.check:
        ceilings = read_ceilings(flags.check)
        for name in PATTERNS:
            if name not in ceilings:
                sys.exit(f"{flags.check} has no ceiling for `{name}`")
            if len(found[name]) > ceilings[name]:
                failures += 1
                print(f"FAILED: `{name}` occurs {len(found[name])} times, at most "
                      f"{ceilings[name]} are allowed. See STYLE.md; list them with "
                      f"--list '{name}'.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
