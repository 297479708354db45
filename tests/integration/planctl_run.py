"""planctl as tests run it: the program, its exit codes, and questions of deploy/examples."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

# Set by `main`.
FLAGS = argparse.Namespace()
OK, INTERNAL, BAD_INPUT, NOTHING_FITS, MISSING, NOT_VERIFIED, UNAVAILABLE, NOT_FOUND = range(8)


def planctl(*arguments, env=None, program="planctl"):
    """Runs planctl; with program="study" parplan-study, with "server_binary" parplan-server."""
    return subprocess.run([getattr(FLAGS, program), *map(str, arguments)], capture_output=True,
                          text=True, timeout=120, env={**os.environ, **(env or {})})


class PlanctlTest(unittest.TestCase):
    """A folder for each test, and the question of deploy/examples."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def example(self, name):
        return FLAGS.examples / name

    def question(self, nodes=1, **changed):
        files = {"model": self.example("llama2-7b.model.json"),
                 "cluster": self.example(f"a100-40g-{8 * nodes}.cluster.json"), **changed}
        return ["--model", files["model"], "--cluster", files["cluster"], "--batch", 64]

    def offline(self, nodes=1, profile=None, **changed):
        if profile is None:
            profile = self.example("llama2-7b-a100.profile.json" if nodes == 1 else
                                   "llama2-7b-a100-2-nodes.profile.json")
        return ["--offline", *self.question(nodes, **changed), "--profile", profile]

    def edited(self, example, change):
        """An example, changed by a function, in the folder of the test."""
        content = json.loads(self.example(example).read_text())
        change(content)
        path = self.folder / example
        path.write_text(json.dumps(content))
        return path

    def text(self, *arguments, code=OK, env=None, program="planctl"):
        done = planctl(*arguments, env=env, program=program)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments, code=OK, env=None, program="planctl"):
        """The one object on standard output."""
        done = self.text("--format", "json", *arguments, code=code, env=env, program=program)
        answer = json.loads(done.stdout)
        self.assertIsInstance(answer, dict)
        if code not in (OK, NOT_VERIFIED):
            self.assertEqual(list(answer), ["error"], arguments)
            self.assertEqual(list(answer["error"]), ["code", "reason", "message", "metadata"])
            self.assertTrue(answer["error"]["message"])
        return answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--study")
    parser.add_argument("--server-binary")
    parser.add_argument("--examples", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "deploy/examples")
    _, rest = parser.parse_known_args(namespace=FLAGS)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
