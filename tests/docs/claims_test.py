#!/usr/bin/python3
"""Names and figures that documents give are those of the sources: variables of the environment,
metrics, fields and values of the contract, flags, tests, and coefficients of the cost model.

    claims_test.py --source FOLDER --bin FOLDER
"""
import argparse
import pathlib
import re
import subprocess
import unittest

FLAGS = None
# Variables by which a launcher of ours talks to its own ranks, and the SPANK plugin to the hooks
# (SLURM_SPANK_PARPLAN_...). Nobody else sets them.
PRIVATE_VARIABLES = {"PARPLAN_RESULT_FD", "PARPLAN_SHARES_CORE", "PARPLAN_BATCH", "PARPLAN_PLANNER",
                     "PARPLAN_RUNTIME", "PARPLAN_TARGET", "PARPLAN_SPACE", "PARPLAN_EXPORT"}
SHIPPED = ("base", "server", "solve", "clients", "exports", "executor", "profiler-agent")
PROGRAMS = ("planctl", "parplan-server", "parplan-agent", "parplan-exec", "parplan-sidecar",
            "parplan-study")


def tracked():
    """The files of the project, from git where there is one."""
    done = subprocess.run(["git", "-C", FLAGS.source, "ls-files", "-z"], capture_output=True,
                          check=False)
    if done.returncode == 0:
        names = [name for name in done.stdout.decode().split("\0") if name]
        return [FLAGS.source / name for name in names if (FLAGS.source / name).is_file()]
    return [path for path in FLAGS.source.rglob("*")
            if path.is_file() and "build" not in path.relative_to(FLAGS.source).parts]


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


class Tree:
    """The texts of documents and of everything else, read once."""

    def __init__(self):
        self.pages, self.sources = {}, {}
        for path in tracked():
            name = str(path.relative_to(FLAGS.source))
            if path.suffix == ".md":
                if path.name != "CHANGELOG.md":  # It names what was.
                    self.pages[name] = text_of(path)
            elif not name.startswith("tests/docs/") and "/data/" not in name:
                self.sources[name] = text_of(path)

    def matches(self, pattern, suffixes=None):
        """What a pattern finds in sources, as one set."""
        return {found for name, text in self.sources.items()
                if suffixes is None or name.endswith(suffixes)
                for found in re.findall(pattern, text)}


TREE = None


class Names(unittest.TestCase):
    def test_variables_of_the_environment_that_pages_name_are_in_a_source(self):
        known = TREE.matches(r"\bPARPLAN_[A-Z0-9_]+\b")
        for page, text in TREE.pages.items():
            for name in re.findall(r"\bPARPLAN_[A-Z0-9_]+[A-Z0-9]\b", text):
                self.assertIn(name, known, page)

    def test_variables_of_the_environment_that_programs_know_are_documented(self):
        documented = {name for text in TREE.pages.values()
                      for name in re.findall(r"`[^`\n]*\bPARPLAN_\w+[^`\n]*`", text)}
        documented = set(re.findall(r"\bPARPLAN_[A-Z0-9_]+\b", " ".join(documented)))
        read = set()
        for name, text in TREE.sources.items():
            if name.startswith(SHIPPED) and name.endswith((".cc", ".c", ".py")):
                read |= set(re.findall(r'"(PARPLAN_[A-Z0-9_]+)"', text))
            if name.startswith("deploy/slurm/"):
                read |= set(re.findall(r'os\.getenv\("(PARPLAN_[A-Z0-9_]+)"', text))
        self.assertGreater(len(read), 30)
        self.assertEqual(read - documented - PRIVATE_VARIABLES, set(), "read and not documented")
        self.assertEqual(PRIVATE_VARIABLES - read, set(), "private and not read")

    def test_the_help_of_parplan_dev_has_its_variables(self):
        script = TREE.sources["parplan-dev"]
        shown = script[:script.index("\nTEXT\n")]
        for name in set(re.findall(r"\$\{(PARPLAN_\w+):-", script)):
            self.assertIn(name, shown)

    def test_names_with_our_prefix_are_in_a_source(self):
        # Metrics, functions of the C interface, members of key sets, targets of the build.
        known = TREE.matches(r"\bparplan_\w+")
        for page, text in TREE.pages.items():
            for name in re.findall(r"`(parplan_\w+)`", text):
                name = re.sub(r"_(?:bucket|sum|count)$", "", name) if name not in known else name
                self.assertIn(name, known, page)

    def test_fields_and_values_of_the_contract_exist(self):
        fields, values = {}, set()
        for name, text in TREE.sources.items():
            if not name.startswith("proto/parplan/v1/"):
                continue
            text = re.sub(r"//.*", "", text)
            values |= set(re.findall(r"^\s*([A-Z][A-Z0-9_]+) = \d+", text, re.MULTILINE))
            for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text,
                                            re.MULTILINE | re.DOTALL):
                fields[message] = set(re.findall(r"\b([a-z]\w*) = \d+", body))
        prefixes = {re.sub(r"UNSPECIFIED$", "", value) for value in values
                    if value.endswith("_UNSPECIFIED")}
        methods = TREE.matches(r"\bdef (\w+)\(", (".py",))
        checked = 0
        for page, text in TREE.pages.items():
            for message, field in re.findall(r"`([A-Z]\w+)\.([a-z]\w*)`", text):
                if message in fields and field not in methods:
                    self.assertIn(field, fields[message], f"{page}: {message}")
                    checked += 1
            for name in re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])`", text):
                if any(name.startswith(prefix) for prefix in prefixes):
                    self.assertIn(name, values, page)
                    checked += 1
        self.assertGreater(checked, 10)

    def test_tests_that_pages_name_exist(self):
        tests = TREE.matches(r"TEST(?:_[FP])?\(\s*(\w+,\s*\w+)\)", (".cc", ".cu"))
        tests = {tuple(re.split(r",\s*", test)) for test in tests}
        suites = {suite for suite, _ in tests}
        checked = 0
        for page, text in TREE.pages.items():
            for suite, test in re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", text):
                # Classes of other programs and methods of services look alike.
                if suite in suites and not (suite.endswith("Service") and (suite, test) not in tests
                                            and self.is_method(suite, test)):
                    self.assertIn((suite, test), tests, page)
                    checked += 1
        self.assertGreater(checked, 100)

    def is_method(self, service, method):
        return any(re.search(rf"^service {service} \{{.*?rpc {method}\(", text,
                             re.MULTILINE | re.DOTALL)
                   for name, text in TREE.sources.items() if name.startswith("proto/parplan/v1/"))


class Figures(unittest.TestCase):
    def test_coefficients_have_the_priors_and_bounds_of_the_source(self):
        source = TREE.sources["planner/model/coefficients.cc"]
        number = r"([\d.e+-]+)"
        infos = {name: (float(prior), float(low), float(high)) for name, prior, low, high in
                 re.findall(rf'\{{k\w+, "(\w+)", {number}, {number}, {number},', source)}
        names = dict(re.findall(r'\{(k\w+), "(\w+)",', source))
        families = {(family, names[constant]): float(value) for family, constant, value in
                    re.findall(rf'\{{"([\w-]+)", (k\w+), {number}\}}', source)}
        self.assertGreater(len(infos), 15)
        checked, shown = set(), set()
        for page in ("docs/cost-model-time.md", "docs/cost-model-memory.md"):
            for name, priors, low, high in re.findall(
                    rf"^\| `(\w+)`[^|]* \| ([^|]+) \| {number} to {number} \|", TREE.pages[page],
                    re.MULTILINE):
                if name not in infos:
                    continue
                first, _, others = priors.partition(";")
                self.assertEqual((float(first), float(low), float(high)), infos[name], name)
                checked.add(name)
                for kinds, value in re.findall(rf"([a-z][\w-]*(?: and [\w-]+)*) {number}", others):
                    for family in kinds.split(" and "):
                        self.assertEqual(float(value), families.get((family, name)),
                                         f"{name} of {family}")
                        shown.add((family, name))
        self.assertEqual(set(infos) - checked, set(), "not in a table")
        self.assertEqual(set(families) - shown, set(), "not in a table")


class Flags(unittest.TestCase):
    def setUp(self):
        missing = [program for program in PROGRAMS if not (FLAGS.bin / program).is_file()]
        if len(missing) == len(PROGRAMS):
            self.skipTest("no program is built")
        self.assertEqual(missing, [], "programs that are not built")
        self.helps = {}

    def help_of(self, words):
        """The help of a command, asked for once."""
        if words not in self.helps:
            done = subprocess.run([FLAGS.bin / words[0], *words[1:], "--help"], capture_output=True,
                                  text=True, check=False)
            self.helps[words] = done.stdout
        return self.helps[words]

    def test_command_lines_of_pages_have_flags_of_their_programs(self):
        line = re.compile(rf"(?<![\w/-])({'|'.join(PROGRAMS)})(?= )([^\n`|;&>()#]*)")
        checked = 0
        for page, text in TREE.pages.items():
            text = re.sub(r"\\\n\s*", " ", text)
            for program, rest in line.findall(text):
                given = re.findall(r"(?<![\w-])--[a-z][\w-]*[a-z0-9]", rest)
                # A program that is the argument of a script of ours is followed by its flags.
                if not given or re.search(rf"--{program} {program}{re.escape(rest)}", text):
                    continue
                # All commands take these two, which the help of parplan-server's does not show.
                words, known = (program,), self.help_of((program,)) + " --format --quiet "
                for word in re.sub(r"--(?:format \w+|quiet)", "", rest).split():
                    if word.startswith("-") or not re.search(
                            rf"^  {re.escape(word)} ", self.help_of(words), re.MULTILINE):
                        break
                    words += (word,)
                    known += self.help_of(words)
                for flag in given:
                    self.assertRegex(known, rf"(?<![\w-]){flag}(?![\w-])",
                                     f"{page}: {' '.join(words)}")
                    checked += 1
        self.assertGreater(checked, 100)


def main():
    global FLAGS, TREE
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    FLAGS, rest = parser.parse_known_args()
    FLAGS.source = FLAGS.source.resolve()
    FLAGS.bin = FLAGS.bin.resolve()
    TREE = Tree()
    unittest.main(argv=["claims_test.py", *rest])


if __name__ == "__main__":
    main()
