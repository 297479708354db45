#!/usr/bin/python3
"""Completion in a real bash: what the script of `planctl completion bash` answers, and what a
person sees who presses the tabulator.

    shell_completion_test.py --planctl PROGRAM --program PROGRAM...
"""
import argparse
import os
import pathlib
import pty
import select
import shlex
import subprocess
import sys
import tempfile
import unittest

FLAGS = None
# Seconds that nothing takes on any machine.
LONG = 300


def complete(script, program, words, folder="."):
    """Returns the words that bash would offer for the last of the words."""
    function = "_" + program.replace("-", "_")
    array = " ".join(shlex.quote(word) for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c",
         f"source {shlex.quote(str(script))}\n"
         f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}\n"
         f'{function}\n(( ${{#COMPREPLY[@]}} == 0 )) || printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, cwd=folder, timeout=LONG, check=False)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{words}: exit {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def printed(program, shell):
    return subprocess.run([program, "--completion", shell], check=True, capture_output=True,
                          text=True).stdout


class Planctl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.script = cls.folder / "planctl.bash"
        cls.script.write_text(subprocess.run([FLAGS.planctl, "completion", "bash"], check=True,
                                             capture_output=True, text=True).stdout)
        (cls.folder / "files").mkdir()
        (cls.folder / "files" / "my plan.json").write_text("{}")
        (cls.folder / "files" / "model.json").write_text("{}")

    def offered(self, *words):
        return complete(self.script, "planctl", ("planctl", *words), self.folder / "files")

    def test_commands_and_their_commands(self):
        self.assertIn("hardware", self.offered(""))
        self.assertEqual(self.offered("hard"), ["hardware"])
        self.assertLessEqual({"list", "show"}, set(self.offered("hardware", "")))
        self.assertEqual(self.offered("completion", "ba"), ["bash"])

    def test_flags_of_the_command_and_of_the_program(self):
        self.assertIn("--cluster", self.offered("profile", "list", "--"))
        self.assertEqual(self.offered("verify", "--tr"), ["--trust", "--trust-memory"])
        self.assertEqual(self.offered("profile", "list", "--fo"), ["--format"])
        self.assertNotIn("--trust", self.offered("plan", "--"))

    def test_values_of_flags(self):
        self.assertEqual(sorted(self.offered("--format", "")), ["json", "text"])
        # Bash breaks `--format=js` into three words.
        self.assertEqual(self.offered("plan", "--format", "=", "js"), ["json"])
        self.assertEqual(self.offered("plan", "--format", "="), ["text", "json"])
        self.assertEqual(sorted(self.offered("plan", "--schedule", "")),
                         ["1f1b", "gpipe", "interleaved", "zb-h1"])
        self.assertEqual(self.offered("plan", "--batch", ""), [])
        # A flag without a value is followed by another flag or a command.
        self.assertEqual(self.offered("--quiet", "hard"), ["hardware"])
        self.assertEqual(self.offered("plan", "--offline", "--mod"), ["--model"])

    def test_files_where_files_may_stand(self):
        self.assertEqual(self.offered("plan", "--model", "mo"), ["model.json"])
        self.assertEqual(self.offered("verify", "my"), ["my plan.json"])
        self.assertEqual(sorted(self.offered("explain", "")), ["model.json", "my plan.json"])

    def test_a_value_that_is_a_command_s_name_is_none(self):
        self.assertEqual(self.offered("plan", "--out", "hardware", "--tr"), [])
        self.assertIn("--batch", self.offered("--format", "json", "plan", "--out", "hardware", "--ba"))
        self.assertEqual(self.offered("--format", "=", "json", "hard"), ["hardware"])

    def test_every_command_answers_and_offers_its_flags(self):
        pending, seen = [()], 0
        while pending:
            words = pending.pop()
            flags = self.offered(*words, "--")
            self.assertIn("--help", flags, words)
            told = subprocess.run([FLAGS.planctl, *words, "--help"], capture_output=True,
                                  text=True, check=True).stdout
            for flag in flags:
                if flag not in ("--format", "--quiet"):
                    self.assertIn(flag, told, words)
            _, _, commands = told.partition("\nSubcommands:\n")
            names = [line.split()[0] for line in commands.partition("\n\n")[0].splitlines()
                     if line.startswith("  ") and line[2] != " "]
            self.assertEqual(sorted(self.offered(*words, "")) if names else names, sorted(names))
            pending += [(*words, name) for name in names]
            seen += 1
        self.assertGreater(seen, 20)

    def test_a_person_at_a_terminal_gets_the_word(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder / "files")
            os.environ.update(PS1="ready> ", TERM="dumb")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        shown = ""

        def until(text):
            nonlocal shown
            while text not in shown:
                if not select.select([terminal], [], [], LONG)[0]:
                    self.fail(f"bash shows {shown!r} and no {text!r}")
                shown += os.read(terminal, 4096).decode(errors="replace")

        try:
            os.write(terminal, f"source {shlex.quote(str(self.script))}; echo 'it''is there'\n"
                     .encode())
            until("itis there")
            os.write(terminal, b"planctl verify my\t")
            until("my\\ plan.json")
            os.write(terminal, b"\x15planctl hard\t")
            until("hardware ")
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)


class Others(unittest.TestCase):
    """Programs that print their script with the hidden --completion, for packages."""

    def test_flags_choices_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "server.json").write_text("{}")
            for program in FLAGS.program:
                name = program.name
                script = pathlib.Path(folder) / f"{name}.bash"
                script.write_text(printed(program, "bash"))

                def offered(*words):
                    return complete(script, name, (name, *words), folder)

                self.assertIn("--version", offered("--"), name)
                self.assertEqual(offered("--vers"), ["--version"])
                self.assertNotIn("--completion", offered("--"))
                if name == "parplan-server":
                    self.assertEqual(offered("--config", "ser"), ["server.json"])
                    self.assertEqual(offered("--workers", ""), [])
                    self.assertEqual(offered("ke"), ["keys"])
                    self.assertIn("rotate", offered("keys", ""))
                if name == "parplan-agent":
                    self.assertEqual(sorted(offered("--backend", "")), ["cpu", "cuda"])
                if name == "parplan-agent-probe":
                    self.assertEqual(offered("ser"), ["server.json"])

    def test_planctl_prints_the_same_script_for_packages(self):
        for shell in ("bash", "fish"):
            command = subprocess.run([FLAGS.planctl, "completion", shell], check=True,
                                     capture_output=True, text=True).stdout
            self.assertEqual(printed(FLAGS.planctl, shell),
                             command.replace(f"planctl completion {shell}",
                                             f"planctl --completion {shell}"))

    def test_a_shell_without_a_script_is_refused(self):
        done = subprocess.run([FLAGS.planctl, "--completion", "csh"], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("bash", done.stderr)


def main():
    global FLAGS
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, action="append", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
