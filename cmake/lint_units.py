#!/usr/bin/env python3
"""Runs clang-tidy on units of sources, and remembers which ones are clean.

A unit is a file of compile_commands.json: one source, or up to sixteen of them that CMake includes
from one generated file. The key of a unit is a digest of everything that its findings depend on:
the code of the project's files that it includes directly or indirectly, its compile command, the
checks, and the releases of clang-tidy and of the packages. Comments are no part of the code but for
those that clang-tidy reads: NOLINT, and an argument's name as in /*name=*/. The keys of clean units
are kept in a folder outside the build, as a compiler cache is, so a unit is read again only if one
of these has changed. Paths in a key are relative to the project: another clone has the same keys. A record in the tree
(cmake/lint_clean.txt) has the keys of the units that a run over everything found clean, so that a
machine that has never seen the project reads what has changed since; a unit whose content, headers,
flags, checks or packages differ from those of the record is read.

Units that contain the sources of the latest commits come first. With --seconds no unit is begun
after that time; the last line says how many units are left for the next run, which is no failure.
Exits with 1 if clang-tidy found anything or could not read a unit.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

# Literals, in which no comment begins, and comments. A raw string ends with its first delimiter.
PIECE = re.compile(
    rb"""R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?\)(?P=delimiter)"
       | "(?:\\.|[^"\\\n])*"
       | \b[0-9](?:'?[0-9A-Za-z_.])*
       | '(?:\\.|[^'\\\n])*'
       | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)""", re.DOTALL | re.VERBOSE)
READ_COMMENT = re.compile(rb"NOLINT|^/\*\s*\w+\s*=\s*\*/$")


def code_of(text):
    """Returns a source without the comments that clang-tidy does not read, and without the spaces
    at ends of lines and the empty lines that they leave."""
    def kept(piece):
        comment = piece.group("comment")
        return b" " if comment and not READ_COMMENT.search(comment) else piece.group()

    lines = (line.rstrip() for line in PIECE.sub(kept, text).split(b"\n"))
    return b"\n".join(line for line in lines if line)


class Sources:
    """The project's sources, with the files that each one includes."""

    def __init__(self, root, generated):
        self._root = root
        self._generated = generated
        self._found = {}
        self._contract = _digest_of(
            code_of(path.read_bytes()) for path in sorted((root / "proto").rglob("*.proto")))

    def reachable(self, path):
        """Returns the sorted paths of all files of the project that `path` includes, and itself."""
        seen, pending = set(), [path]
        while pending:
            one = pending.pop()
            if one not in seen:
                seen.add(one)
                pending.extend(self._includes(one)[1])
        return sorted(seen)

    def digest(self, path):
        """Returns a digest of the code of one file, without the place of the project in it."""
        return self._includes(path)[0]

    def contract_digest(self):
        """Returns a digest of the code of all .proto files, from which headers are generated."""
        return self._contract

    def _includes(self, path):
        if path not in self._found:
            text = path.read_bytes()
            here = str(self._root).encode()
            names = INCLUDE.findall(text.decode(errors="replace"))
            found = [place for place in (self._place(path, name) for name in names) if place]
            self._found[path] = (_digest_of([code_of(text).replace(here, b".")]), found)
        return self._found[path]

    def _place(self, path, name):
        for folder in (path.parent, self._root, self._generated):
            place = folder / name
            if place.is_file():
                return pathlib.Path(os.path.normpath(place))
        return None


def _digest_of(parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def unit_key(unit, command, sources, root, fixed):
    """Returns the key of a unit: equal keys have equal findings."""
    parts = [fixed, command.replace(str(root), "."), sources.contract_digest()]
    for path in sources.reachable(pathlib.Path(unit)):
        parts.append(os.path.relpath(path, root))
        parts.append(sources.digest(path))
    return _digest_of(parts)


def read_record(path):
    """Returns the keys of a record, each under the name of its unit."""
    if not path or not path.is_file():
        return {}
    lines = [line.split() for line in path.read_text().split("\n") if not line.startswith("#")]
    return {line[0]: line[1] for line in lines if len(line) == 2}


def write_record(path, keys):
    """Writes the keys of clean units, a line each, ascending by the name of the unit."""
    lines = ["# Units that clang-tidy found clean, each with its key (cmake/lint_units.py).",
             "# Written by `./parplan-dev lint --all`."]
    path.write_text("\n".join(lines + [f"{name} {key}" for name, key in sorted(keys.items())] + [""]))


def recent_ranks(root):
    """Returns how recently each source was changed: 0 for those of the last commit."""
    names = subprocess.run(["git", "log", "-n", "200", "--name-only", "--format="], cwd=root,
                           capture_output=True, text=True, check=False).stdout.split("\n")
    ranks = {}
    for name in names:
        if name:
            ranks.setdefault(root / name, len(ranks))
    return ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--commands", type=pathlib.Path, required=True,
                        help="folder of compile_commands.json")
    parser.add_argument("--generated", type=pathlib.Path, required=True,
                        help="folder of generated headers")
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--record", type=pathlib.Path, help="file of keys of clean units")
    parser.add_argument("--write-record", action="store_true",
                        help="write the keys of the units of this run that are clean to --record")
    parser.add_argument("--clang-tidy", default="clang-tidy-14")
    parser.add_argument("--packages", default="", help="releases of what sources are compiled with")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--checks", default="", help="added to those of .clang-tidy")
    parser.add_argument("--test-checks", default="", help="added to them for tests")
    parser.add_argument("folders", nargs="*", help="top-level folders; by default all")
    options = parser.parse_args()

    root = options.root.resolve()
    commands = {}
    for entry in json.loads((options.commands / "compile_commands.json").read_text()):
        commands[entry["file"]] = entry["command"]
    version = subprocess.run([options.clang_tidy, "--version"], capture_output=True, text=True,
                             check=True).stdout
    fixed = _digest_of([version, options.packages, (root / ".clang-tidy").read_bytes()])
    sources = Sources(root, options.generated.resolve())
    ranks = recent_ranks(root)
    options.cache.mkdir(parents=True, exist_ok=True)

    recorded = read_record(options.record)
    recorded_keys = set(recorded.values())
    known, pending, keys = 0, [], {}
    for unit, command in sorted(commands.items()):
        parts = pathlib.Path(os.path.relpath(unit, root)).parts
        if parts[:1] == ("build",):
            parts = parts[2:]
        if not parts or parts[0] in ("gen", "precompiled", "..") or "gen" in parts[:-1]:
            continue
        if options.folders and parts[0] not in options.folders:
            continue
        checks = options.checks
        if parts[0] == "tests":
            checks = ",".join(part for part in (checks, options.test_checks) if part)
        key = unit_key(unit, command, sources, root, fixed + checks)
        name = "/".join(parts)
        keys[name] = key
        if key in recorded_keys or (options.cache / key).exists():
            known += 1
            continue
        reached = sources.reachable(pathlib.Path(unit))
        rank = min(ranks.get(path, len(ranks)) for path in reached)
        pending.append((rank, unit, name, checks))
    pending.sort()

    end = time.monotonic() + options.seconds
    failed, left, read = [], [], 0

    def run(item):
        _, unit, name, checks = item
        if time.monotonic() > end:
            return item, None
        done = subprocess.run([options.clang_tidy, "--quiet", "-p", str(options.commands),
                               f"--checks={checks}", unit], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0 and "warning:" not in done.stdout:
            (options.cache / keys[name]).touch()
        return item, done

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        for item, done in workers.map(run, pending):
            if done is None:
                left.append(item)
                continue
            read += 1
            if done.returncode != 0 or "warning:" in done.stdout:
                failed.append(item)
                print(done.stdout, flush=True)
                if done.returncode != 0:
                    print("\n".join(line for line in done.stderr.split("\n")
                                    if "warnings generated" not in line), flush=True)
    if options.record and options.write_record:
        unclean = {item[2] for item in failed + left}
        kept = {name: key for name, key in recorded.items()
                if options.folders and name.split("/")[0] not in options.folders}
        write_record(options.record,
                     kept | {name: key for name, key in keys.items() if name not in unclean})
    print(f"clang-tidy: {read} units read, {len(failed)} with findings; {known} known to be clean; "
          f"{len(left)} left for the next run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
