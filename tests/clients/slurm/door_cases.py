"""Before a job is in the queue, and when many are at once."""
import json
import re
import statistics
import threading
import time

from machine import wait_for
from slurm_case import WORLD, SlurmTest, moment
from slurm_site import Server, make_certificates, model


class AtTheDoor(SlurmTest):
    """deploy/slurm/cli_filter.lua and job_submit.lua, which are read where Slurm starts."""

    def setUp(self):
        super().setUp()
        etc = WORLD.site.folder / "etc"
        conf = etc / "slurm.conf"
        text = conf.read_text()
        self.addCleanup(self.take_away, conf, text)
        if "CliFilterPlugins" not in text:
            for name in ("cli_filter.lua", "job_submit.lua"):
                (etc / name).write_text((WORLD.flags.source / "deploy/slurm" / name).read_text())
            conf.write_text(text + "CliFilterPlugins=lua\nJobSubmitPlugins=lua\n")
            self.slurm.run("scontrol", "reconfigure")
        cluster = WORLD.site.folder / "partition.cluster.json"
        cluster.write_text(json.dumps({
            "cluster": "lab", "node_groups": [{
                "node_group_id": "h200", "device_kind": "NVIDIA H200", "node_count": 3,
                "devices_per_node": 8, "device_memory_bytes": 150754820096}],
            "link_tiers": [{"tier_id": "node", "reach_device_count": 8},
                           {"tier_id": "fabric", "reach_device_count": 24}]}))
        self.variables = {"PARPLAN_PLANCTL": str(WORLD.flags.planctl),
                          "PARPLAN_CLUSTER_FILE": str(cluster),
                          "PARPLAN_SERVER": WORLD.site.server.address,
                          "PARPLAN_PATIENCE_SECONDS": "120"}

    def take_away(self, conf, text):
        conf.write_text(text)
        self.slurm.run("scontrol", "reconfigure")

    def test_jobs_are_given_what_they_need_or_told_why_not(self):
        done = self.slurm.try_submit("echo $SLURM_JOB_NUM_NODES\n", "--gpus-per-node=h200:8",
                                     *WORLD.site.plan_flags(), **self.variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("parplan: asking for", done.stderr)
        advised = re.search(r"asking for (\d+) nodes with 8 devices", done.stderr).group(1)
        job = done.stdout.strip()
        self.expect_end(job, "COMPLETED")
        self.assertEqual(self.slurm.output(job).strip(), advised)

        # Who names a range has chosen.
        done = self.slurm.try_submit("echo $SLURM_JOB_NUM_NODES\n", "--nodes=2-3",
                                     "--gpus-per-node=h200:8", *WORLD.site.plan_flags(),
                                     **self.variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("asking for", done.stderr)
        job = done.stdout.strip()
        self.expect_end(job, "COMPLETED")
        self.assertIn(self.slurm.output(job).strip(), ("2", "3"))

        big = WORLD.site.folder / "large.json"
        big.write_text(json.dumps(model(decoders=64, hidden=12288, heads=96)))
        flags = [f"--plan-model={big}", "--plan-batch=24", "--gpus-per-node=h200:8"]
        done = self.slurm.try_submit("true\n", "--nodes=1", *flags, **self.variables)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1 nodes with 8 devices cannot train this: ", done.stderr)

        # An adviser that is away keeps nobody.
        done = self.slurm.try_submit("true\n", "--nodes=1", "--gpus-per-node=h200:1",
                                     *WORLD.site.plan_flags(),
                                     **{**self.variables, "PARPLAN_SERVER": WORLD.site.nobody,
                                        "PARPLAN_PATIENCE_SECONDS": "2"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no advice", done.stderr)
        self.expect_end(done.stdout.strip(), "COMPLETED")

    def test_the_planner_may_speak_tls(self):
        folder = WORLD.site.folder / "tls-door"
        folder.mkdir(exist_ok=True)
        files = make_certificates(folder / "files")
        with Server(WORLD.flags.server_binary, folder, "--tls-certificate", files / "server.pem",
                    "--tls-key", files / "server.key") as server:
            done = self.slurm.try_submit(
                "true\n", "--gpus-per-node=h200:8", *WORLD.site.plan_flags(),
                **{**self.variables, "PARPLAN_SERVER": server.address,
                   "PARPLAN_TLS_FLAGS": f"--tls-ca '{files}/ca.pem'"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("parplan: asking for", done.stderr)

    def test_jobs_without_devices_are_not_let_in(self):
        done = self.slurm.try_submit("true\n", "--nodes=1", *WORLD.site.plan_flags(), **{
            **self.variables, "PARPLAN_SERVER": WORLD.site.nobody, "PARPLAN_PATIENCE_SECONDS": "1"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("asks for devices", done.stderr)


class Many(SlurmTest):
    def test_fifty_at_once(self):
        count = 50
        hold = WORLD.site.folder / "gate"
        self.addCleanup(hold.touch)
        begun = {}
        jobs = []
        lock = threading.Lock()

        def submit(k):
            begin = time.time()
            path = self.out / f"many{k}.sh"
            path.write_text("#!/bin/sh\necho \"$PARPLAN_PLAN_NAME\"\n"
                            f"while [ ! -e '{hold}' ]; do sleep 0.2; done\n")
            job = self.slurm.run("sbatch", "--parsable", "--output=%j.out", "--nodes=1",
                                 "--gres=core:here:1", *WORLD.site.plan_flags(batch=2 + 2 * k),
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
        wait_for("plans", lambda: all(WORLD.site.log_lines("slurm-prolog", job) for job in jobs))
        hold.touch()
        for job in jobs:
            self.expect_end(job, "COMPLETED")
        lines = {job: WORLD.site.log_lines("slurm-prolog", job)[0] for job in jobs}
        self.assertEqual({job for job in jobs if "outcome=planned" not in lines[job]}, set())
        plans = {self.slurm.output(job).strip() for job in jobs}
        self.assertEqual(len(plans), count)
        waited = sorted(float(re.search(r" in (\S+) s$", lines[job]).group(1)) for job in jobs)
        whole = sorted(moment(lines[job]) - begun[job] for job in jobs)
        for name, values in (("plan latency seen by 50 jobs at once", waited),
                             ("sbatch to plan, 50 jobs at once", whole)):
            WORLD.figures.append(f"{name}: median {statistics.median(values):.3f} s, "
                           f"worst {values[-1]:.3f} s")
