#!/usr/bin/python3
"""Plans for the jobs of a real Slurm: submitted, planned on their nodes, verified, told to tasks,
trained under, closed; and all that may go wrong on the way.

    slurm_test.py --planctl P --server-binary S --exec E --plugin SO --source FOLDER [--all]

Without --all those cases that are done in a minute.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from slurm_case import WORLD  # noqa: E402
from slurm_cluster import why_not  # noqa: E402
from slurm_site import Site  # noqa: E402

CASES = ["plan_cases", "trouble_cases", "door_cases"]
QUICK = ["plan_cases.ThePlan.test_tasks_see_it",
         "plan_cases.ThePlan.test_the_nodes_have_it_as_files_of_other_programs",
         "plan_cases.ThePlan.test_a_job_trains_under_it_and_its_execution_is_closed",
         "plan_cases.ThePlan.test_what_the_options_cannot_mean_is_said_at_once",
         "plan_cases.Refusals.test_a_name_that_looks_like_facts",
         "plan_cases.Refusals.test_nodes_of_two_kinds",
         "plan_cases.Refusals.test_a_plan_that_nobody_trusted_signed",
         "trouble_cases.ThePlannerIsAway.test_jobs_start_without_a_plan"]


def enter_namespace():
    """Goes on in a process whose end is the end of all that it has started, daemons of daemons too,
    even where it is killed. Not every container allows it."""
    if "PARPLAN_SLURM_TEST_INSIDE" in os.environ:
        del os.environ["PARPLAN_SLURM_TEST_INSIDE"]
        child = os.fork()
        if child == 0:
            return
        # Here is the first process: orphans become its children.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            pid, status = os.wait()
            if pid == child:
                os._exit(os.waitstatus_to_exitcode(status) & 0xff)
    enter = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode == 0:
        os.environ["PARPLAN_SLURM_TEST_INSIDE"] = "1"
        os.execvp(enter[0], [*enter, sys.executable, "-B", *sys.argv])


def path_parser(*names):
    """Returns a parser of required flags that name files or folders."""
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument(f"--{name}", type=lambda path: pathlib.Path(path).resolve(),
                            required=True)
    return parser


def run_on_site(flags, load):
    """Starts a site, runs the suite that `load` returns, and ends the process: with 77 where no
    cluster can be. `flags` has `planctl`, `server_binary`, `plugin` and `source`."""
    if why_not():
        print(f"skipped: {why_not()}")
        sys.exit(77)
    enter_namespace()
    suite = load()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        # Jobs of other users look into it.
        pathlib.Path(folder).chmod(0o755)
        with Site(flags, folder) as site:
            WORLD.flags, WORLD.site = flags, site
            WORLD.figures.append(
                f"four nodes and a planner up in {time.monotonic() - begin:.1f} s; the controller "
                f"runs as {site.slurm.user}")
            result = unittest.TextTestRunner(verbosity=2).run(suite)
    print(f"\n{result.testsRun} cases in {time.monotonic() - begin:.0f} s")
    for figure in WORLD.figures:
        print(f"  {figure}")
    sys.exit(0 if result.wasSuccessful() else 1)


def main():
    parser = path_parser("planctl", "server-binary", "exec", "plugin", "source")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--hang-seconds", type=float, default=15)
    flags = parser.parse_args()
    run_on_site(flags, lambda: unittest.TestLoader().loadTestsFromNames(
        flags.only or (CASES if flags.all else QUICK)))


if __name__ == "__main__":
    main()
