"""Tests that lint_units.py reads what changed, and only that."""

import argparse
import json
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

# Stands in for clang-tidy: writes down which units it reads, and finds the word "mistake" in them.
FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo "release 1"; exit 0; fi
for unit; do :; done
echo "$unit" >>"$(dirname "$0")/calls"
if grep -q mistake "$unit"; then echo "$unit:1:1: warning: a mistake"; exit 1; fi
"""


def make_project(root):
    (root / "room").mkdir(parents=True)
    (root / "proto").mkdir()
    (root / "tests").mkdir()
    (root / ".clang-tidy").write_text("Checks: '*'\n")
    (root / "room" / "deep.h").write_text("int deep;\n")
    (root / "room" / "one.h").write_text('#include "room/deep.h"\n')
    (root / "room" / "one.cc").write_text('#include "room/one.h"\n')
    (root / "room" / "two.cc").write_text("int two;\n")
    (root / "tests" / "one_test.cc").write_text('#include "room/one.h"\n')
    # As CMake writes a file that includes several sources.
    unit = root / "build" / "lint" / "tests" / "unity_0_cxx.cxx"
    unit.parent.mkdir(parents=True)
    unit.write_text(f'#include "{root}/tests/one_test.cc"\n')
    units = [root / "room" / "one.cc", root / "room" / "two.cc", unit]
    (root / "commands").mkdir()
    (root / "commands" / "compile_commands.json").write_text(json.dumps(
        [{"file": str(path), "command": f"c++ -I{root} -c {path}"} for path in units]))


class World:
    def __init__(self, script, folder):
        self._script = script
        self._folder = folder
        self._tool = folder / "clang-tidy"
        self._tool.write_text(FAKE)
        self._tool.chmod(self._tool.stat().st_mode | stat.S_IXUSR)

    def run(self, root, *flags):
        """Returns the exit status, the names of the units that were read, and the last line."""
        calls = self._folder / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-B", self._script, "--root", root, "--commands", root / "commands",
             "--generated", root / "gen", "--cache", self._folder / "cache", "--clang-tidy",
             self._tool, *flags], capture_output=True, text=True, check=False)
        names = calls.read_text().split() if calls.exists() else []
        assert done.returncode in (0, 1), done.stderr
        return done.returncode, sorted(pathlib.Path(name).name for name in names), done.stdout


def expect(found, wanted):
    assert found == wanted, f"found {found}, wanted {wanted}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    script = parser.parse_args().script
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        world = World(script, folder)
        project = folder / "project"
        make_project(project)
        everything = ["one.cc", "two.cc", "unity_0_cxx.cxx"]

        # Nothing is read after the time is over, and that is no failure.
        status, names, text = world.run(project, "--seconds", "-1")
        expect((status, names), (0, []))
        assert "3 left for the next run" in text, text
        expect(world.run(project, "room")[:2], (0, ["one.cc", "two.cc"]))
        expect(world.run(project)[:2], (0, ["unity_0_cxx.cxx"]))
        expect(world.run(project)[:2], (0, []))

        # A header that is included indirectly.
        (project / "room" / "deep.h").write_text("int deeper;\n")
        expect(world.run(project)[:2], (0, ["one.cc", "unity_0_cxx.cxx"]))
        # Checks of tests, checks of all, packages and the contract.
        expect(world.run(project, "--test-checks=-misc-*")[:2], (0, ["unity_0_cxx.cxx"]))
        expect(world.run(project, "--packages", "libabsl-dev 2")[:2], (0, everything))
        (project / "proto" / "room.proto").write_text("message Plan {}\n")
        expect(world.run(project)[:2], (0, everything))
        (project / "proto" / "room.proto").write_text("// A plan.\nmessage Plan {}\n")
        expect(world.run(project)[:2], (0, []))
        (project / ".clang-tidy").write_text("Checks: 'misc-*'\n")
        expect(world.run(project)[:2], (0, everything))

        # Comments are not code, but for those that clang-tidy reads; what only looks like one is.
        two = project / "room" / "two.cc"
        for text in ('const char* two = "// no comment"; char quote = \'"\'; int big = 1\'000;\n',
                     'const char* two = R"x(/* no" comment)x"; int more = f(/*wide=*/1);\n'):
            two.write_text(text)
            expect(world.run(project)[:2], (0, ["two.cc"]))
            two.write_text("// What two is.\n\n" + text.replace("\n", "  // It \"is\" so.\n") +
                           "/* Two lines\n   of it's end. */\n")
            expect(world.run(project)[:2], (0, []))
            two.write_text(text.replace("no", "a"))
            expect(world.run(project)[:2], (0, ["two.cc"]))
        two.write_text(text.replace("wide", "narrow"))
        expect(world.run(project)[:2], (0, ["two.cc"]))
        two.write_text("int two;\n")
        expect(world.run(project)[:2], (0, []))
        two.write_text("int two;  // NOLINT\n")
        expect(world.run(project)[:2], (0, ["two.cc"]))

        # A finding fails, and is found again until it is mended.
        (project / "room" / "two.cc").write_text("int mistake;\n")
        for _ in range(2):
            status, names, text = world.run(project)
            expect((status, names), (1, ["two.cc"]))
            assert "warning: a mistake" in text, text
        (project / "room" / "two.cc").write_text("int two;\n")
        expect(world.run(project)[:2], (0, []))

        # What is clean here is clean in another clone.
        other = folder / "other"
        make_project(other)
        for path in ("room/deep.h", pathlib.PurePath("proto", "room.proto"), ".clang-tidy"):
            shutil.copy(project / path, other / path)
        expect(world.run(other)[:2], (0, []))

        # Nor is that read which a record in the tree knows to be clean, without any cache.
        record = folder / "record.txt"
        (project / "room" / "two.cc").write_text("int mistake;\n")
        expect(world.run(project, "--record", record, "--write-record")[:2], (1, ["two.cc"]))
        assert "room/two.cc" not in record.read_text(), record.read_text()
        shutil.rmtree(folder / "cache")
        (project / "room" / "two.cc").write_text("int two;\n")
        expect(world.run(project, "--record", record)[:2], (0, ["two.cc"]))
        shutil.rmtree(folder / "cache")
        expect(world.run(project, "--record", record, "--write-record", "room")[:2],
               (0, ["two.cc"]))
        assert len(record.read_text().split("\n")) == 2 + 3 + 1, record.read_text()
        shutil.rmtree(folder / "cache")
        expect(world.run(project, "--record", record)[:2], (0, []))
        # Except where it has changed since.
        (project / "room" / "deep.h").write_text("int deepest;\n")
        expect(world.run(project, "--record", record)[:2], (0, ["one.cc", "unity_0_cxx.cxx"]))
        expect(world.run(project, "--record", folder / "absent.txt", "room")[:2], (0, ["two.cc"]))
    print("lint_units.py reads what changed")


if __name__ == "__main__":
    main()
