"""The planner is away, or jobs end otherwise than they should."""
import os
import re
import socket
import subprocess
import time

from machine import PATIENCE_SECONDS, wait_for
from slurm_case import FAILED, WORLD, SlurmTest, seconds_of


class ThePlannerIsAway(SlurmTest):
    def test_jobs_start_without_a_plan(self):
        WORLD.site.configure(server=WORLD.site.nobody, deadline_seconds=4)
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("because ", self.slurm.output(job))
        self.assertIn("outcome=away", self.hooks(job))
        # On a machine so busy that 4 s are none, that.
        self.assertRegex(self.hooks(job), f"no answer from {WORLD.site.nobody}|no end within 4s")

    def test_files_of_tls_that_cannot_be_read_are_not_the_jobs_fault(self):
        WORLD.site.configure(tls_ca="/nobody/has/this.pem")
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("because FAILED_PRECONDITION", self.slurm.output(job))
        self.assertIn("/nobody/has/this.pem", self.slurm.output(job))
        self.assertIn("parplan away: ", self.slurm.field(job, "AdminComment"))

    def test_a_prolog_that_waits_for_another_program_ends_in_time_too(self):
        tools = WORLD.site.folder / "hanging"
        tools.mkdir(mode=0o755, exist_ok=True)
        pids = tools / "pids"
        (tools / "scontrol").write_text(f"#!/bin/sh\necho $$ >>'{pids}'\nexec sleep 100000\n")
        (tools / "scontrol").chmod(0o755)
        pids.touch()
        pids.chmod(0o666)
        WORLD.site.configure(slurm_bin_dir=str(tools), deadline_seconds=4)
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("because ", self.slurm.output(job))
        self.assertIn("no end within 4s", self.hooks(job))
        # The processes that it had started are gone as well.
        for pid in pids.read_text().split():
            wait_for(f"the end of {pid}", lambda: not os.path.exists(f"/proc/{pid}/exe"))

    def test_jobs_go_back_to_the_queue_and_are_planned_later(self):
        WORLD.site.configure(server=WORLD.site.nobody, deadline_seconds=2, when_away="requeue")
        job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME\"\n", "--requeue",
                                "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        wait_for("a restart", lambda: self.slurm.field(job, "Restarts") not in ("", "0"))
        WORLD.site.configure()
        self.start_again(job)
        self.expect_end(job, "COMPLETED")
        self.assertIn("clusters/lab/plans/", self.slurm.output(job))
        self.expect_all_nodes_fit()

    def test_one_that_never_answers_holds_up_nobody(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)
            server = "127.0.0.1:%d" % listener.getsockname()[1]
            WORLD.site.configure(server=server)
            flags = ["--gpus-per-node=h200:1", *WORLD.site.plan_flags()]
            job = self.slurm.submit("true\n", *flags)
            listener.settimeout(PATIENCE_SECONDS)
            connection, _ = listener.accept()
            # The prolog hangs now. The controller goes on, and other jobs come and go.
            self.expect_end(self.slurm.submit("true\n"), "COMPLETED")
            answers = []
            for _ in range(10):
                begin = time.monotonic()
                self.slurm.run("squeue", "-h")
                self.slurm.run("sdiag")
                answers.append(time.monotonic() - begin)
            self.assertEqual(self.slurm.state(job), "CONFIGURING")
            self.slurm.run("scancel", job)
            self.expect_end(job, "CANCELLED")
            # One that may not take as long.
            allowed = WORLD.flags.hang_seconds
            WORLD.site.configure(server=server, deadline_seconds=allowed)
            job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", *flags)
            self.expect_end(job, "COMPLETED")
            connection.close()
        self.assertIn("because ", self.slurm.output(job))
        held = seconds_of(WORLD.site.log_lines("slurm-prolog", job)[0])
        WORLD.figures.append(
            f"a planner that hangs: a job waited {held:.1f} s of {allowed} s allowed; squeue and sdiag "
            f"answered meanwhile, the slowest of {len(answers)} times in {max(answers):.2f} s")


class ANode(SlurmTest):
    def test_that_cannot_keep_plans_is_drained_and_the_job_waits(self):
        # Anybody could put files in the place of a job's.
        unfit = WORLD.site.folder / "unfit"
        unfit.mkdir(exist_ok=True)
        unfit.chmod(0o1777)
        WORLD.site.configure(node_dir=str(unfit))
        self.addCleanup(self.slurm.run, "scontrol", "update", "nodename=n2", "state=resume",
                        check=False)
        job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME\"\n", "--requeue", "--nodelist=n2",
                                "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        wait_for("n2 to be drained", lambda: any(
            line.startswith("n2 drain") for line in self.slurm.node_states()))
        wait_for("the requeue", lambda: self.slurm.state(job) == "PENDING")
        self.assertIn("nobody else writes to", self.hooks(job))
        self.assertEqual(list(unfit.iterdir()), [])
        WORLD.site.configure()
        self.slurm.run("scontrol", "update", "nodename=n2", "state=resume")
        self.start_again(job)
        self.expect_end(job, "COMPLETED")
        self.assertIn("clusters/lab/plans/", self.slurm.output(job))
        self.expect_all_nodes_fit()


class ItEnds(SlurmTest):
    def test_what_a_job_leaves_open_is_closed(self):
        job = self.submit_training(steps=1_000_000)
        wait_for("a plan", lambda: WORLD.site.log_lines("slurm-prolog", job))
        plan = re.search(r"clusters/\S+", WORLD.site.log_lines("slurm-prolog", job)[0]).group(0)
        wait_for("an execution", lambda: WORLD.site.executions(plan))
        self.slurm.run("scancel", "--full", "--signal=KILL", job)
        self.assertIn(self.slurm.wait_for_end(job), ("FAILED", "CANCELLED"))
        wait_for("the execution to be closed",
                 lambda: WORLD.site.executions(plan)[0].state == FAILED)
        reason = WORLD.site.executions(plan)[0].failure_reason
        WORLD.figures.append(f"an execution left open was closed: {reason}")

    def test_what_could_not_be_closed_can_be_later(self):
        gate = WORLD.site.folder / "gate.unclosed"
        self.addCleanup(gate.touch)
        job = self.slurm.submit(f"while [ ! -e '{gate}' ]; do sleep 0.2; done\n",
                                "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        wait_for("a plan", lambda: WORLD.site.log_lines("slurm-prolog", job))
        WORLD.site.configure(server=WORLD.site.nobody, deadline_seconds=4)
        gate.touch()
        self.expect_end(job, "COMPLETED")
        wait_for("the epilog", lambda: "outcome=unclosed" in self.hooks(job))
        left = WORLD.site.spool / f"{job}.json"
        self.assertTrue(left.exists())
        WORLD.site.configure()
        subprocess.run([WORLD.flags.planctl, "slurm-epilog", "--config", WORLD.site.config_path],
                       env={**os.environ, "SLURM_JOB_ID": job, "SPANK_PARPLAN_PLAN": "auto"},
                       check=True)
        self.assertIn("outcome=closed", self.hooks(job))
        self.assertFalse(left.exists())

    def test_a_job_that_starts_again_elsewhere_has_a_plan_for_there(self):
        job = self.slurm.submit(
            "echo \"$PARPLAN_PLAN_NAME on $PARPLAN_NODE\"\n"
            "[ \"$SLURM_RESTART_COUNT\" = 1 ] || sleep 100000\n",
            "--requeue", "--open-mode=append", "--exclude=n3,n4", "--gpus-per-node=h200:1",
            *WORLD.site.plan_flags())
        wait_for("the job to see its plan", lambda: " on " in self.slurm.output(job))
        node = self.slurm.output(job).split()[-1]
        self.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        try:
            self.slurm.run("scontrol", "requeue", job)
            wait_for("the requeue", lambda: self.slurm.state(job) == "PENDING")
            self.start_again(job)
            self.expect_end(job, "COMPLETED")
        finally:
            self.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
        first, second = self.slurm.output(job).strip().split("\n")[::len(
            self.slurm.output(job).strip().split("\n")) - 1]
        self.assertNotEqual(first.split()[-1], second.split()[-1])
        self.assertNotEqual(first.split()[0], second.split()[0])
        self.assertEqual(self.slurm.field(job, "Restarts"), "1")
