#!/usr/bin/python3
"""Checks that programs and shared libraries are hardened, as ParplanCompiler.cmake says.

    check_hardening.py FOLDER...

Looks at every ELF file in the folders. Prints one line for each that lacks something, and ends with
1 then, or if there is none at all.
"""
import pathlib
import re
import subprocess
import sys

# Functions of the C library that have a twin which checks lengths, as far as programs call them.
CHECKED = re.compile(r"__\w+_chk\b")


def read(path, *options):
    return subprocess.run(["readelf", "--wide", *options, str(path)], capture_output=True, text=True,
                          check=True).stdout


def missing(path):
    """Returns the protections that a file lacks, in words."""
    header, segments = read(path, "--file-header"), read(path, "--program-headers")
    dynamic, symbols = read(path, "--dynamic"), read(path, "--dyn-syms")
    is_program = "INTERP" in segments
    lacks = []
    if is_program and "Type:                              DYN" not in header:
        lacks.append("a position that differs at each start (-pie)")
    if "GNU_RELRO" not in segments:
        lacks.append("pages that are read only once it runs (-z relro)")
    if not re.search(r"BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic):
        lacks.append("functions that are bound at the start (-z now)")
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+(\S+)", segments)
    if stack is None or "E" in stack.group(1):
        lacks.append("a stack that cannot be executed (-z noexecstack)")
    if "__stack_chk_fail" not in symbols:
        lacks.append("stack protectors (-fstack-protector-strong)")
    if not CHECKED.search(symbols.replace("__stack_chk_fail", "")):
        lacks.append("checks of lengths (-D_FORTIFY_SOURCE)")
    return lacks


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def main():
    files = sorted(path for folder in sys.argv[1:] for path in pathlib.Path(folder).iterdir()
                   if path.is_file() and not path.is_symlink() and is_elf(path))
    failed = not files
    for path in files:
        if lacks := missing(path):
            failed = True
            print(f"{path} lacks {'; '.join(lacks)}")
    print(f"{len(files)} programs and libraries looked at")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
