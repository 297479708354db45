#!/usr/bin/python3
"""Functions that nothing but tests calls: none but those of a list, which has the reason of each.

    test_only_functions.py --source DIR [--list FILE]

Reads sources as text. A function is found if a header declares it and its name is nowhere else
outside tests but at its definition, which begins a line of a source. A function of a common name, a
template, and one that is called from a function of this kind alone, are not found.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
DECLARED = re.compile(r"^ *(?:[\w:<>,&*\[\]]+ +)+[&*]?(\w+)\(", re.MULTILINE)
DEFINED = re.compile(r"^(?:[\w:<>,&*\[\]]+ +)*[&*]?(?:\w+::)*(\w+)\(", re.MULTILINE)
NO_DECLARATION = re.compile(r"^ *(?:return|else|new|delete|case|throw|using|typedef)\b")


def sources(root):
    names = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.cu", "*.cuh"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split()
    for name in names:
        text = COMMENT.sub(" ", (root / name).read_text(errors="replace"))
        # A macro's lines name what it calls.
        yield name, text


def found_in(files):
    """Names that only tests call, each with the header that declares it."""
    counts, in_tests = collections.Counter(), set()
    declared, forms = {}, collections.Counter()
    for name, text in files:
        words = NAME.findall(text)
        if name.startswith("tests/"):
            in_tests.update(words)
            continue
        counts.update(words)
        if name.endswith(".h"):
            for match in DECLARED.finditer(text):
                line = text[match.start():match.end()]
                if not NO_DECLARATION.match(line):
                    declared.setdefault(match.group(1), name)
                    forms[match.group(1)] += 1
        elif name.endswith((".cc", ".cu")):
            forms.update(match.group(1) for match in DEFINED.finditer(text))
    return {name: header for name, header in declared.items()
            if counts[name] <= 2 and counts[name] == forms[name] and name in in_tests}


def self_check():
    header = "int Used(int a);\nint Alone(int a);\nclass A {\n  void Method();\n  int b() const;\n};\n"
    source = "int Used(int a) { return 1; }\nint Alone(int a) {\n  return Used(a);\n}\nvoid A::Method() {}\n"
    test = "Alone(2); Method(); Used(1);"
    assert found_in([("a/x.h", header), ("a/x.cc", source), ("tests/" + "x.cc", test)]) == {
        "Alone": "a/x.h", "Method": "a/x.h"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--list", type=pathlib.Path,
                        default=pathlib.Path(__file__).with_suffix(".txt"))
    options = parser.parse_args()
    self_check()
    lines = [line.split(None, 1) for line in options.list.read_text().split("\n")
             if line and not line.startswith("#")]
    reasons = {line[0]: line[1:] for line in lines}
    found = found_in(sources(options.source))
    failed = False
    for name, header in sorted(found.items()):
        if name not in reasons:
            failed = True
            print(f"{header}: only tests call {name}; remove it, move it into its test, or give its "
                  f"reason in {options.list.name}")
    for name, reason in reasons.items():
        if name not in found or not reason:
            failed = True
            print(f"{options.list.name}: {name} is called, is gone, or has no reason")
    print(f"{len(found)} functions that only tests call, all with a reason" if not failed else "FAIL")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
