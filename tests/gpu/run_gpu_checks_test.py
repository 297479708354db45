#!/usr/bin/env python3
"""What run.sh of the bundle writes, over programs that only print.

    run_gpu_checks_test.py --source SOURCE
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path()

SKIPS = """echo 'x_test.cc:7: Skipped'
echo 'one "GPU"'
echo '[  SKIPPED ] Gpu.Two (0 ms)'
echo '[  SKIPPED ] 1 test, listed below:'
echo '[  SKIPPED ] Gpu.Two'
"""
PASSES = "echo '[       OK ] Gpu.One (3 ms)'\n"
# As the loader of the C library: options, and then a program.
LOADER = """echo by-the-loader
[[ $1 == --library-path ]] || exit 9
shift 2
exec "$@"
"""
SANITIZER = """while [[ $1 == --* ]]; do
  if [[ $1 == --tool || $1 == --error-exitcode ]]; then shift; fi
  shift
done
echo "libraries of the tool: ${LD_LIBRARY_PATH:-none}"
exec "$@"
"""


class Bundle:
    """A folder as make_bundle.sh packs it, and programs of the system before others in PATH."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "bundle"
        self.system = folder / "system"
        self.results = folder / "results"
        self.program("bin/device_report", "echo 'devices: 1'")
        self.program("tests/device_cuda_gpu_test", PASSES + SKIPS)
        self.program("tests/executor_gpu_test", PASSES)
        for name in ("nvidia-smi", "compute-sanitizer"):
            self.program(name, SANITIZER if name[0] == "c" else "", self.system)
        # No torch: the steps that need one are not under test here.
        self.program("python3", "exit 1", self.system)
        shutil.copy("/bin/true", self.folder / "bin/libparplan_cuda.so")
        shutil.copy(SOURCE / "tests/gpu/run_gpu_checks.sh", self.folder / "run.sh")
        (self.folder / "revision").write_text("test\n")

    def program(self, name: str, text: str, folder: pathlib.Path | None = None) -> None:
        file = (folder or self.folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/usr/bin/env bash\n" + text)
        file.chmod(0o755)

    def run(self, *arguments: str) -> dict[str, dict]:
        path = f"{self.system}:{os.environ['PATH']}"
        ended = subprocess.run([self.folder / "run.sh", self.results, *arguments], check=False,
                               capture_output=True, text=True, env={**os.environ, "PATH": path})
        self.status, self.output = ended.returncode, ended.stdout + ended.stderr
        return {step["step"]: step
                for step in json.loads((self.results / "results.json").read_text())["steps"]}

    def log(self, step: str) -> str:
        return (self.results / f"{step}.log").read_text()


class RunGpuChecks(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Bundle(pathlib.Path(folder.name))

    def test_skipped_tests_did_not_pass(self) -> None:
        steps = self.bundle.run()
        self.assertEqual(self.bundle.status, 0, self.bundle.output)
        self.assertEqual(steps["kernels"]["outcome"], "passed")
        self.assertEqual(steps["kernels"]["skipped"], 1)
        self.assertNotIn("skipped", steps["plans"])

    def test_a_step_whose_tests_were_all_skipped_was_not_run(self) -> None:
        self.bundle.program("tests/executor_gpu_test", SKIPS)
        steps = self.bundle.run()
        self.assertEqual(steps["plans"],
                         {"step": "plans", "outcome": "not run", "reason": "one GPU"})

    def test_a_failure_is_one_though_others_were_skipped(self) -> None:
        self.bundle.program("tests/executor_gpu_test", SKIPS + "exit 1")
        self.assertEqual(self.bundle.run()["plans"]["outcome"], "FAILED")
        self.assertEqual(self.bundle.status, 1)

    def test_steps_of_several_gpus_count_the_visible_ones(self) -> None:
        steps = self.bundle.run()
        self.assertEqual(steps["many-steps-8-queues"]["outcome"], "not run")
        self.assertIn("one GPU is visible", steps["many-steps-8-queues"]["reason"])
        self.assertEqual(steps["all-reduce"],
                         {"step": "all-reduce", "outcome": "not run",
                          "reason": "one GPU is visible"})
        self.bundle.program("bin/device_report", "echo 'devices: 8'")
        self.bundle.program("bin/all_reduce_speed",
                            """echo '{"ratio": 1.2}'; echo 'the goal is 1.1' >&2; exit 1""")
        self.bundle.program("tests/executor_gpu_test",
                            PASSES + 'echo "$PARPLAN_GPU_STEPS of $CUDA_DEVICE_MAX_CONNECTIONS"')
        steps = self.bundle.run()
        self.assertEqual(steps["all-reduce"]["outcome"], "FAILED")
        self.assertEqual(steps["all-reduce"]["figures"], {"ratio": 1.2})
        for queues in (1, 8, 32):
            self.assertEqual(steps[f"many-steps-{queues}-queues"]["outcome"], "passed")
            self.assertIn(f"10000 of {queues}\n", self.bundle.log(f"many-steps-{queues}-queues"))

    def test_the_results_have_what_a_step_printed_as_json(self) -> None:
        self.bundle.program("bin/device_report", """echo 'devices: 1'
echo '{"plans": 8, "worst_time_error": 0.02}'
echo done""")
        figures = self.bundle.run()["device-report"]["figures"]
        self.assertEqual(figures, {"plans": 8, "worst_time_error": 0.02})

    def test_the_loader_of_the_bundle_starts_what_the_sanitizer_examines(self) -> None:
        self.assertEqual(self.bundle.run()["sanitizer-memcheck"]["outcome"], "passed")
        self.assertNotIn("by-the-loader", self.bundle.log("sanitizer-memcheck"))
        self.assertIn(str(self.bundle.folder / "lib"), self.bundle.log("sanitizer-memcheck"))
        # An older system.
        self.bundle.program("ldd", "echo 'ldd (GNU libc) 2.34'", self.bundle.system)
        self.bundle.program("glibc/ld-linux-x86-64.so.2", LOADER)
        steps = self.bundle.run()
        self.assertEqual(steps["sanitizer-memcheck"]["outcome"], "passed")
        self.assertIn("by-the-loader", self.bundle.log("sanitizer-memcheck"))
        self.assertNotIn(str(self.bundle.folder / "lib"), self.bundle.log("sanitizer-memcheck"))
        self.assertIn("by-the-loader", self.bundle.log("kernels"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    SOURCE = arguments.source
    unittest.main(argv=[sys.argv[0], *rest])
