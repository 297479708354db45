"""Tests that check_hardening.py finds programs that lack one of the protections."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

SOURCE = """
#include <cstring>
#include <cstdio>
int main(int count, char** words) {
  char text[8];
  strcpy(text, words[count - 1]);
  return puts(text) < 0;
}
"""
WHOLE = ["-O2", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE",
         "-pie", "-Wl,-z,relro,-z,now,-z,noexecstack"]
# Each case has the flags that are added, and a word that the finding then contains.
FLAWS = [(["-no-pie"], "-pie"), (["-Wl,-z,norelro"], "-z relro"), (["-Wl,-z,lazy"], "-z now"),
         (["-Wl,-z,execstack"], "-z noexecstack"), (["-fno-stack-protector"], "stack protectors"),
         (["-U_FORTIFY_SOURCE"], "_FORTIFY_SOURCE")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    parser.add_argument("--compiler", required=True)
    arguments = parser.parse_args()
    failures = []

    def check(flags):
        """Exit code and output for a program that is built so."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "source.cc").write_text(SOURCE)
            (folder / "bin").mkdir()
            (folder / "bin" / "notes.txt").write_text("no program\n")
            if flags is not None:
                subprocess.run([arguments.compiler, *WHOLE, *flags, "-o", folder / "bin" / "program",
                                folder / "source.cc"], check=True, capture_output=True)
            done = subprocess.run([sys.executable, "-B", arguments.script, folder / "bin"],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    code, text = check([])
    if code != 0 or "1 programs" not in text:
        failures.append(f"a hardened program is refused: {text}")
    for flags, word in FLAWS:
        code, text = check(flags)
        if code != 1 or word not in text:
            failures.append(f"{flags}: {code} {text}")
    if check(None)[0] != 1:
        failures.append("a folder without programs passes")
    for failure in failures:
        print(failure)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
