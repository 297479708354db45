#!/usr/bin/python3
"""Plans for the jobs of a real Slurm: submitted, planned on their nodes, verified, told to tasks,
trained under, closed; and all that may go wrong on the way.

    slurm_test.py --planctl P --server-binary S --exec E --plugin SO --source FOLDER [--all]

Without --all those cases that are done in a minute.
"""
import argparse
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from slurm_cluster import PATIENCE_SECONDS, wait_for, why_not  # noqa: E402
from slurm_site import Site, model  # noqa: E402

FLAGS = argparse.Namespace()
SITE = None
FIGURES = []
RUNNING = 1  # Execution.State
SUCCEEDED, FAILED = 2, 3


def setUpModule():
    global SITE
    folder = tempfile.TemporaryDirectory(prefix="slurm-")
    unittest.addModuleCleanup(folder.cleanup)
    # Jobs of other users look into it.
    pathlib.Path(folder.name).chmod(0o755)
    site = Site(FLAGS, folder.name)
    unittest.addModuleCleanup(site.__exit__)
    begin = time.monotonic()
    SITE = site.__enter__()
    FIGURES.append(f"four nodes and a planner up in {time.monotonic() - begin:.1f} s")


def variables(path):
    return dict(line.split("=", 1) for line in path.read_text().split("\n") if "=" in line)


def seconds_of(line, name="seconds"):
    return float(re.search(rf"{name}=(\S+)", line).group(1))


class SlurmTest(unittest.TestCase):
    def setUp(self):
        SITE.configure()
        self.slurm = SITE.slurm
        self.out = SITE.folder / "out"

    def expect_end(self, job, state):
        self.assertEqual(self.slurm.wait_for_end(job), state,
                         f"{self.slurm.output(job)}\n{self.hooks(job)}")

    def hooks(self, job):
        return "\n".join(line for hook in ("slurm-prolog", "slurm-node-prolog", "slurm-epilog",
                                           "slurm-node-epilog")
                         for line in SITE.log_lines(hook, job))

    def expect_all_nodes_fit(self):
        for line in self.slurm.node_states():
            self.assertNotIn("drain", line)
            self.assertNotIn("down", line)

    def train(self, steps):
        """A script that trains on two nodes."""
        return (f"srun --ntasks-per-node=1 '{FLAGS.exec}' --plan $PARPLAN_PLAN "
                f"--trust $PARPLAN_TRUST --model $PARPLAN_MODEL --topology $PARPLAN_TOPOLOGY "
                f"--job $SLURM_JOB_ID --steps {steps} --window-steps 2 "
                f"--server {SITE.server.address} --results $SLURM_JOB_ID.results.json\n")

    def submit_training(self, steps):
        return self.slurm.submit(self.train(steps), "--nodes=2", "--ntasks-per-node=1",
                                 "--gres=core:here:1", *SITE.plan_flags())


class ThePlan(SlurmTest):
    def test_tasks_see_it(self):
        begin = time.time()
        job = self.slurm.submit(
            "env >$SLURM_JOB_ID.batch\n"
            "srun --ntasks-per-node=8 sh -c 'env >$SLURM_JOB_ID.$SLURM_PROCID.task'\n"
            "srun --ntasks=2 --ntasks-per-node=1 sh -c 'env >$SLURM_JOB_ID.$SLURM_PROCID.one'\n"
            "srun --ntasks=1 --nodes=1 --plan=off env >$SLURM_JOB_ID.off\n"
            "cp $PARPLAN_RANK_MAP $SLURM_JOB_ID.ranks; cp $PARPLAN_PLAN $SLURM_JOB_ID.plan\n",
            "--nodes=2", "--nodelist=n1,n2", "--ntasks-per-node=8", "--gpus-per-node=h200:8",
            *SITE.plan_flags(batch=64))
        self.expect_end(job, "COMPLETED")
        tasks = [variables(self.out / f"{job}.{k}.task") for k in range(16)]
        ranks = json.loads((self.out / f"{job}.ranks").read_text())
        self.assertEqual([node["name"] for node in ranks["nodes"]], ["n1", "n2"])
        self.assertEqual(sorted(int(task["RANK"]) for task in tasks), list(range(16)))
        self.assertEqual(len({task["PARPLAN_TOKEN"] for task in tasks}), 1)
        for task in tasks:
            mine = ranks["ranks"][int(task["RANK"])]
            self.assertEqual(task["PARPLAN_RANK"], task["RANK"])
            self.assertEqual(task["PARPLAN_WORLD_SIZE"], "16")
            self.assertEqual(mine["node"], task["SLURMD_NODENAME"])
            self.assertEqual(mine["device"], int(task["SLURM_LOCALID"]))
            self.assertEqual(mine["stage"], int(task["PARPLAN_STAGE"]))
            self.assertEqual(task["MASTER_ADDR"], "127.0.0.1")
            self.assertEqual(task["PARPLAN_JOB_ID"], job)
            # Slurm still says which devices there are.
            self.assertEqual(len(task["CUDA_VISIBLE_DEVICES"].split(",")), 8)
        self.assertEqual(len({task["MASTER_PORT"] for task in tasks}), 1)
        # A launcher on each node and the script know of the plan, and are no ranks.
        for name in ("batch", "0.one", "1.one"):
            seen = variables(self.out / f"{job}.{name}")
            self.assertEqual(seen["PARPLAN_DEVICE_COUNT"], "16")
            self.assertNotIn("PARPLAN_RANK", seen)
        self.assertNotIn("PARPLAN_PLAN", variables(self.out / f"{job}.off"))
        checked = subprocess.run(
            [FLAGS.planctl, "verify", self.out / f"{job}.plan", "--trust", SITE.trust, "--cluster",
             "lab", "--job", job, "--node", "n2"], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("parplan planned: clusters/lab/plans/", self.slurm.field(job, "AdminComment"))
        # Nothing is left where the job was.
        wait_for("the epilogs", lambda: not list(SITE.folder.glob(f"node/*/{job}")) and
                 not (SITE.spool / f"{job}.json").exists())
        planned = SITE.log_lines("slurm-prolog", job)[0]
        FIGURES.append(f"one job of 16 devices: sbatch to plan "
                       f"{self.moment(planned) - begin:.2f} s, of it the prolog "
                       f"{seconds_of(planned):.2f} s")

    @staticmethod
    def moment(line):
        stamp = line.split(" ", 1)[0].rstrip("Z")
        whole, fraction = stamp.split(".")
        return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(
            f"0.{fraction}")

    def test_a_job_trains_under_it_and_its_execution_is_closed(self):
        job = self.submit_training(steps=6)
        self.expect_end(job, "COMPLETED")
        results = json.loads((self.out / f"{job}.results.json").read_text())
        self.assertEqual(len(results["losses"]), 6)
        plan = results["plans"][0]["plan"]
        executions = SITE.executions(plan)
        self.assertEqual([one.state for one in executions], [SUCCEEDED])
        self.assertEqual(executions[0].name, results["report"]["execution"])
        self.assertGreater(executions[0].window_count, 0)

    def test_a_plan_made_before_is_named(self):
        topology = {"cluster": "lab", "node_groups": [{
            "node_group_id": "any", "device_kind": "NVIDIA H200", "node_count": 1,
            "devices_per_node": 2, "device_memory_bytes": 150754820096}],
            "link_tiers": [{"tier_id": "node", "reach_device_count": 2}]}
        plan = SITE.client.call("parplan.v1.PlanService", "CreatePlan", {
            "parent": "clusters/lab", "request_id": "named", "spec": {
                "model": model(), "topology": topology, "global_batch_size": 8,
                "options": {"allow_estimates": True}}})
        name = plan.name.split("/")[-1]
        job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME $PARPLAN_NODE\"\n",
                                "--nodelist=n2", "--gpus-per-node=h200:2", f"--plan={name}")
        self.expect_end(job, "COMPLETED")
        self.assertEqual(self.slurm.output(job).strip(), f"{plan.name} n2")
        # For a job of another shape it is no plan.
        job = self.slurm.submit("true\n", "--gpus-per-node=h200:4", f"--plan={name}")
        self.expect_end(job, "CANCELLED")
        self.assertIn("not for the 1 nodes with 4 devices", self.slurm.field(job, "AdminComment"))

    def test_what_the_options_cannot_mean_is_said_at_once(self):
        for flags, words in ((["--plan=auto"], "needs --plan-model"),
                             (["--plan-model=/none.json", "--plan-batch=8"], "No such file"),
                             ([f"--plan-model={SITE.model_path}", "--plan-batch=x"],
                              "whole number"),
                             (["--plan=a b"], "is no name")):
            done = self.slurm.try_submit("true\n", *flags)
            self.assertNotEqual(done.returncode, 0, flags)
            self.assertIn(words, done.stderr)

    def test_a_job_without_a_wish_knows_of_nothing(self):
        job = self.slurm.submit("env\n", "--gpus-per-node=h200:1")
        self.expect_end(job, "COMPLETED")
        self.assertNotIn("PARPLAN", self.slurm.output(job))
        self.assertEqual(self.hooks(job), "")


class Refusals(SlurmTest):
    def test_a_model_that_fits_nowhere(self):
        big = SITE.folder / "big.json"
        big.write_text(json.dumps(model(decoders=100, hidden=16384, heads=128)))
        job = self.slurm.submit("true\n", "--gpus-per-node=h200:1", f"--plan-model={big}",
                                "--plan-batch=8")
        self.expect_end(job, "CANCELLED")
        comment = self.slurm.field(job, "AdminComment")
        self.assertIn("parplan refused: NO_FEASIBLE_PLAN", comment)
        # The site may let it start all the same; then it is told.
        SITE.configure(when_refused="launch")
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                f"--plan-model={big}", "--plan-batch=8")
        self.expect_end(job, "COMPLETED")
        self.assertIn("because NO_FEASIBLE_PLAN", self.slurm.output(job))

    def test_nodes_of_two_kinds(self):
        job = self.slurm.submit("true\n", "--nodes=2", "--nodelist=n3,n4", "--gpus-per-node=8",
                                *SITE.plan_flags())
        self.expect_end(job, "CANCELLED")
        comment = self.slurm.field(job, "AdminComment")
        self.assertIn("n3 gives the job gpu:h200:8 but n4 gpu:a100:8", comment)
        self.assertIn("--constraint", comment)

    def test_a_plan_that_nobody_trusted_signed(self):
        other = SITE.folder / "other-keys"
        if not other.exists():
            other.mkdir(mode=0o700)
            subprocess.run([FLAGS.planctl, "keys", "generate", "--data-dir", other], check=True,
                           capture_output=True)
        SITE.configure(trust=str(next(other.glob("*.jwks.json"))))
        job = self.slurm.submit("echo it runs\n", "--gpus-per-node=h200:1", *SITE.plan_flags())
        self.expect_end(job, "FAILED")
        self.assertNotIn("it runs", self.slurm.output(job))
        self.assertIn("unverified,refused", self.hooks(job))
        self.expect_all_nodes_fit()
        SITE.configure(trust=str(next(other.glob("*.jwks.json"))), when_unverified="launch")
        job = self.slurm.submit("echo \"$PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *SITE.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("not verified", self.slurm.output(job))


class ThePlannerIsAway(SlurmTest):
    def test_jobs_start_without_a_plan(self):
        SITE.configure(server=SITE.nobody, deadline_seconds=4)
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *SITE.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("because ", self.slurm.output(job))
        self.assertIn("outcome=away", self.hooks(job))

    def test_jobs_go_back_to_the_queue_and_are_planned_later(self):
        SITE.configure(server=SITE.nobody, deadline_seconds=2, when_away="requeue")
        job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME\"\n", "--requeue",
                                "--gpus-per-node=h200:1", *SITE.plan_flags())
        wait_for("a restart", lambda: self.slurm.field(job, "Restarts") not in ("", "0"))
        SITE.configure()
        self.start_again(job)
        self.expect_end(job, "COMPLETED")
        self.assertIn("clusters/lab/plans/", self.slurm.output(job))
        self.expect_all_nodes_fit()

    def start_again(self, job):
        """Slurm lets a job that went back wait a while."""
        self.slurm.wait_for_state(job, "PENDING", "RUNNING", "CONFIGURING", "COMPLETED")
        self.slurm.run("scontrol", "release", job, check=False)
        self.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)

    def test_one_that_never_answers_holds_up_nobody(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)
            SITE.configure(server="127.0.0.1:%d" % listener.getsockname()[1],
                           deadline_seconds=FLAGS.hang_seconds)
            job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n",
                                    "--gpus-per-node=h200:1", *SITE.plan_flags())
            listener.settimeout(PATIENCE_SECONDS)
            connection, _ = listener.accept()
            # The prolog hangs now. The controller goes on, and other jobs come and go.
            other = self.slurm.submit("true\n")
            answers = []
            while self.slurm.state(job) == "CONFIGURING":
                begin = time.monotonic()
                self.slurm.run("squeue", "-h")
                self.slurm.run("sdiag")
                answers.append(time.monotonic() - begin)
            self.assertGreater(len(answers), 0)
            self.expect_end(other, "COMPLETED")
            self.expect_end(job, "COMPLETED")
            connection.close()
        self.assertIn("because ", self.slurm.output(job))
        held = seconds_of(SITE.log_lines("slurm-prolog", job)[0])
        FIGURES.append(
            f"a planner that hangs: the job waited {held:.1f} s of {FLAGS.hang_seconds} s allowed; "
            f"squeue and sdiag answered {len(answers)} times meanwhile, the slowest in "
            f"{max(answers):.2f} s")


class ItEnds(SlurmTest):
    def test_what_a_job_leaves_open_is_closed(self):
        job = self.submit_training(steps=1_000_000)
        wait_for("a plan", lambda: SITE.log_lines("slurm-prolog", job))
        plan = re.search(r"clusters/\S+", SITE.log_lines("slurm-prolog", job)[0]).group(0)
        wait_for("an execution", lambda: SITE.executions(plan))
        self.slurm.run("scancel", "--full", "--signal=KILL", job)
        self.assertIn(self.slurm.wait_for_end(job), ("FAILED", "CANCELLED"))
        wait_for("the execution to be closed",
                 lambda: SITE.executions(plan)[0].state == FAILED)
        reason = SITE.executions(plan)[0].failure_reason
        FIGURES.append(f"an execution left open was closed: {reason}")

    def test_a_job_that_starts_again_elsewhere_has_a_plan_for_there(self):
        job = self.slurm.submit(
            "echo \"$PARPLAN_PLAN_NAME on $PARPLAN_NODE\"\n"
            "[ \"$SLURM_RESTART_COUNT\" = 1 ] || sleep 100000\n",
            "--requeue", "--open-mode=append", "--exclude=n3,n4", "--gpus-per-node=h200:1",
            *SITE.plan_flags())
        wait_for("the job to see its plan", lambda: " on " in self.slurm.output(job))
        node = self.slurm.output(job).split()[-1]
        self.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        try:
            self.slurm.run("scontrol", "requeue", job)
            wait_for("the requeue", lambda: self.slurm.state(job) == "PENDING")
            ThePlannerIsAway.start_again(self, job)
            self.expect_end(job, "COMPLETED")
        finally:
            self.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        first, second = self.slurm.output(job).strip().split("\n")[::len(
            self.slurm.output(job).strip().split("\n")) - 1]
        self.assertNotEqual(first.split()[-1], second.split()[-1])
        self.assertNotEqual(first.split()[0], second.split()[0])
        self.assertEqual(self.slurm.field(job, "Restarts"), "1")


class AtTheDoor(SlurmTest):
    """deploy/slurm/cli_filter.lua and job_submit.lua, which are read where Slurm starts."""

    def setUp(self):
        super().setUp()
        etc = SITE.folder / "etc"
        conf = etc / "slurm.conf"
        text = conf.read_text()
        if "CliFilterPlugins" not in text:
            for name in ("cli_filter.lua", "job_submit.lua"):
                (etc / name).write_text((FLAGS.source / "deploy/slurm" / name).read_text())
            conf.write_text(text + "CliFilterPlugins=lua\nJobSubmitPlugins=lua\n")
            self.slurm.run("scontrol", "reconfigure")
        self.addCleanup(self.take_away, conf, text)
        cluster = SITE.folder / "partition.cluster.json"
        cluster.write_text(json.dumps({
            "cluster": "lab", "node_groups": [{
                "node_group_id": "h200", "device_kind": "NVIDIA H200", "node_count": 3,
                "devices_per_node": 8, "device_memory_bytes": 150754820096}],
            "link_tiers": [{"tier_id": "node", "reach_device_count": 8},
                           {"tier_id": "fabric", "reach_device_count": 24}]}))
        self.variables = {"PARPLAN_PLANCTL": str(FLAGS.planctl),
                          "PARPLAN_CLUSTER_FILE": str(cluster),
                          "PARPLAN_SERVER": SITE.server.address,
                          "PARPLAN_PATIENCE_SECONDS": "120"}

    def take_away(self, conf, text):
        conf.write_text(text)
        self.slurm.run("scontrol", "reconfigure")

    def test_jobs_are_given_what_they_need_or_told_why_not(self):
        done = self.slurm.try_submit("echo $SLURM_JOB_NUM_NODES\n", "--gpus-per-node=h200:8",
                                     *SITE.plan_flags(), **self.variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("parplan: asking for", done.stderr)
        job = done.stdout.strip()
        self.expect_end(job, "COMPLETED")

        big = SITE.folder / "large.json"
        big.write_text(json.dumps(model(decoders=64, hidden=12288, heads=96)))
        flags = [f"--plan-model={big}", "--plan-batch=24", "--gpus-per-node=h200:8"]
        done = self.slurm.try_submit("true\n", "--nodes=1", *flags, **self.variables)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1 nodes cannot train this", done.stderr)

        # An adviser that is away keeps nobody.
        done = self.slurm.try_submit("true\n", "--nodes=1", "--gpus-per-node=h200:1",
                                     *SITE.plan_flags(),
                                     **{**self.variables, "PARPLAN_SERVER": SITE.nobody,
                                        "PARPLAN_PATIENCE_SECONDS": "2"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no advice", done.stderr)
        self.expect_end(done.stdout.strip(), "COMPLETED")

    def test_jobs_without_devices_are_not_let_in(self):
        done = self.slurm.try_submit("true\n", "--nodes=1", *SITE.plan_flags(), **{
            **self.variables, "PARPLAN_SERVER": SITE.nobody, "PARPLAN_PATIENCE_SECONDS": "1"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("asks for devices", done.stderr)


class Many(SlurmTest):
    def test_fifty_at_once(self):
        count = 50
        hold = SITE.folder / "gate"
        begun = {}
        jobs = []
        lock = threading.Lock()

        def submit(k):
            begin = time.time()
            path = self.out / f"many{k}.sh"
            path.write_text("#!/bin/sh\necho \"$PARPLAN_PLAN_NAME\"\n"
                            f"while [ ! -e '{hold}' ]; do sleep 0.2; done\n")
            job = self.slurm.run("sbatch", "--parsable", "--output=%j.out", "--nodes=1",
                                 "--gres=core:here:1", *SITE.plan_flags(batch=2 + 2 * k),
                                 path).stdout.strip()
            with lock:
                begun[job] = begin
                jobs.append(job)

        threads = [threading.Thread(target=submit, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(jobs), count)
        wait_for("plans", lambda: all(SITE.log_lines("slurm-prolog", job) for job in jobs))
        hold.touch()
        for job in jobs:
            self.expect_end(job, "COMPLETED")
        lines = {job: SITE.log_lines("slurm-prolog", job)[0] for job in jobs}
        self.assertEqual({job for job in jobs if "outcome=planned" not in lines[job]}, set())
        plans = {self.slurm.output(job).strip() for job in jobs}
        self.assertEqual(len(plans), count)
        waited = sorted(float(re.search(r" in (\S+) s$", lines[job]).group(1)) for job in jobs)
        whole = sorted(ThePlan.moment(lines[job]) - begun[job] for job in jobs)
        for name, values in (("plan latency seen by 50 jobs at once", waited),
                             ("sbatch to plan, 50 jobs at once", whole)):
            FIGURES.append(f"{name}: median {statistics.median(values):.3f} s, "
                           f"p99 {values[-1 if count < 100 else -2]:.3f} s, "
                           f"worst {values[-1]:.3f} s")


QUICK = ["ThePlan.test_tasks_see_it",
         "ThePlan.test_a_job_trains_under_it_and_its_execution_is_closed",
         "ThePlan.test_what_the_options_cannot_mean_is_said_at_once",
         "Refusals.test_nodes_of_two_kinds",
         "Refusals.test_a_plan_that_nobody_trusted_signed",
         "ThePlannerIsAway.test_jobs_start_without_a_plan"]


def main():
    parser = argparse.ArgumentParser()
    for name in ("planctl", "server-binary", "exec", "plugin", "source"):
        parser.add_argument(f"--{name}", type=lambda path: pathlib.Path(path).resolve(),
                            required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--hang-seconds", type=float, default=15)
    global FLAGS
    FLAGS = parser.parse_args()
    if why_not():
        print(f"skipped: {why_not()}")
        sys.exit(77)
    # unittest looks for setUpModule in the module of the tests.
    names = FLAGS.only or (QUICK if not FLAGS.all else [])
    loader = unittest.TestLoader()
    module = sys.modules[__name__]
    suite = (unittest.TestSuite(loader.loadTestsFromName(name, module) for name in names)
             if names else loader.loadTestsFromModule(module))
    begin = time.monotonic()
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    print(f"\n{result.testsRun} cases in {time.monotonic() - begin:.0f} s")
    for figure in FIGURES:
        print(f"  {figure}")
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
