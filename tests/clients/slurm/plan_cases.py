"""A plan gets to the tasks of a job, or the job is told why there is none."""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

import grpc

from machine import wait_for
from slurm_case import SUCCEEDED, WORLD, SlurmTest, moment, seconds_of, variables
from slurm_site import Client, Server, grants_flags, make_certificates, model


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
            *WORLD.site.plan_flags(batch=64))
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
            [WORLD.flags.planctl, "verify", self.out / f"{job}.plan", "--trust", WORLD.site.trust, "--cluster",
             "lab", "--job", job, "--node", "n2"], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("parplan planned: clusters/lab/plans/", self.slurm.field(job, "AdminComment"))
        # Nothing is left where the job was.
        wait_for("the epilogs", lambda: not list(WORLD.site.folder.glob(f"node/*/{job}")) and
                 not (WORLD.site.spool / f"{job}.json").exists())
        planned = WORLD.site.log_lines("slurm-prolog", job)[0]
        WORLD.figures.append(f"one job of 16 devices: sbatch to plan "
                       f"{moment(planned) - begin:.2f} s, of it the prolog "
                       f"{seconds_of(planned):.2f} s")

    def test_the_nodes_have_it_as_files_of_other_programs(self):
        job = self.slurm.submit(
            "env >$SLURM_JOB_ID.batch; cp -r $PARPLAN_EXPORT_MEGATRON $SLURM_JOB_ID.megatron\n"
            "srun --ntasks=2 --ntasks-per-node=1 "
            "sh -c 'cksum <$PARPLAN_EXPORT_MEGATRON/megatron.args >$SLURM_JOB_ID.$SLURM_PROCID'\n",
            "--nodes=2", "--nodelist=n1,n2", "--ntasks-per-node=8", "--gpus-per-node=h200:8",
            "--plan-runtime=megatron-core", "--plan-export=megatron",
            *WORLD.site.plan_flags(batch=64))
        self.expect_end(job, "COMPLETED")
        seen = variables(self.out / f"{job}.batch")
        arguments = (self.out / f"{job}.megatron" / "megatron.args").read_text().splitlines()
        self.assertIn("--num-layers=4", arguments)
        self.assertIn("--global-batch-size=64", arguments)
        self.assertIn(f"--micro-batch-size={seen['PARPLAN_MICRO_BATCH_SIZE_PER_RANK']}", arguments)
        self.assertEqual(seen["PARPLAN_GRADIENT_ACCUMULATION_STEPS"],
                         seen["PARPLAN_MICRO_BATCH_COUNT"])
        sums = [(self.out / f"{job}.{task}").read_text() for task in range(2)]
        self.assertEqual(sums[0], sums[1])
        # The space and the target are those of the job. No plan of this space shards anything.
        job = self.slurm.submit(
            "cat $PARPLAN_EXPORT_GALVATRON/galvatron_config.json\n", "--nodes=1",
            "--gpus-per-node=h200:8", "--plan-target=galvatron", "--plan-space=none",
            "--plan-export=galvatron", *WORLD.site.plan_flags(batch=64))
        self.expect_end(job, "COMPLETED")
        config = json.loads(self.slurm.output(job))
        self.assertEqual((config["world_size"], config["pp_deg"]), (8, 1))
        self.assertEqual(set(config["tp_sizes_enc"].split(",")), {"1"})

    def test_files_that_cannot_be_are_refused_before_the_job_starts(self):
        for flags, words in ((["--plan-export=nemo"], "must be one of"),
                             (["--plan-export=megatron,megatron"], "twice"),
                             (["--plan-target=nemo"], "target"),
                             (["--plan-space=all,-warp"], "space")):
            job = self.slurm.submit("true\n", "--gpus-per-node=h200:8", *flags,
                                    *WORLD.site.plan_flags(batch=64))
            self.expect_end(job, "CANCELLED")
            self.assertIn(words, self.slurm.field(job, "AdminComment"))

    def test_a_job_trains_under_it_and_its_execution_is_closed(self):
        job = self.submit_training(steps=6)
        self.expect_end(job, "COMPLETED")
        results = json.loads((self.out / f"{job}.results.json").read_text())
        self.assertEqual(len(results["losses"]), 6)
        plan = results["plans"][0]["plan"]
        executions = WORLD.site.executions(plan)
        self.assertEqual([one.state for one in executions], [SUCCEEDED])
        self.assertEqual(executions[0].name, results["report"]["execution"])
        self.assertGreater(executions[0].window_count, 0)

    def test_a_planner_that_wants_certificates(self):
        folder = WORLD.site.folder / "tls"
        folder.mkdir(exist_ok=True)
        files = make_certificates(folder / "files")
        for name in ("ca.pem", "client.pem", "client.key"):
            shutil.chown(files / name, self.slurm.user)
        with Server(WORLD.flags.server_binary, folder, "--tls-certificate", files / "server.pem",
                    "--tls-key", files / "server.key", "--tls-client-ca", files / "ca.pem",
                    *grants_flags(folder, ("dns:localhost", "planner"))) as server:
            tls = {"server": server.address, "tls_ca": str(files / "ca.pem"),
                   "trust": str(folder / "data/trust-bundle.jwks.json")}
            WORLD.site.configure(**tls, tls_certificate=str(files / "client.pem"),
                                 tls_key=str(files / "client.key"))
            job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME\"\n", "--gpus-per-node=h200:1",
                                    *WORLD.site.plan_flags())
            self.expect_end(job, "COMPLETED")
            self.assertIn("clusters/lab/plans/", self.slurm.output(job))
            wait_for("the epilog", lambda: "outcome=closed clusters" in re.sub(
                r" seconds=\S+", "", self.hooks(job)))
            # Without one the planner is away; that is no fault of the job.
            WORLD.site.configure(**tls, deadline_seconds=4)
            job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n",
                                    "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
            self.expect_end(job, "COMPLETED")
            self.assertIn("because ", self.slurm.output(job))
            self.assertIn("outcome=away", self.hooks(job))

    def test_a_controller_with_the_role_of_a_planner(self):
        folder = WORLD.site.folder / "roles"
        folder.mkdir(exist_ok=True)
        files = make_certificates(folder / "files")
        for name in ("ca.pem", "client.pem", "client.key"):
            shutil.chown(files / name, self.slurm.user)
        config = folder / "roles.json"

        def grant(source, identity, *roles):
            config.write_text(json.dumps({"authorization": {
                "certificate_names": [source],
                "grants": [{"identities": [identity], "role": role, "clusters": ["*"]}
                           for role in roles]}}))

        # The same certificate is a person at first and the controller afterwards.
        grant("dns", "dns:localhost", "planner")
        read = lambda name: (files / name).read_bytes()  # noqa: E731
        with Server(WORLD.flags.server_binary, folder, "--tls-certificate", files / "server.pem",
                    "--tls-key", files / "server.key", "--tls-client-ca", files / "ca.pem",
                    "--config", config) as server:

            def grant_again(*roles):
                count = server.log().count('"event":"keys read again"')
                grant("cn", "cn:client", *roles)
                server.process.send_signal(signal.SIGHUP)
                wait_for("the grants",
                         lambda: server.log().count('"event":"keys read again"') > count)

            person = Client(server.address, grpc.ssl_channel_credentials(
                read("ca.pem"), read("client.key"), read("client.pem")))
            topology = {"cluster": "lab", "node_groups": [{
                "node_group_id": "any", "device_kind": "NVIDIA H200", "node_count": 1,
                "devices_per_node": 2, "device_memory_bytes": 150754820096}],
                "link_tiers": [{"tier_id": "node", "reach_device_count": 2}]}
            plan = person.call("parplan.v1.PlanService", "CreatePlan", {
                "parent": "clusters/lab", "spec": {
                    "model": model(), "topology": topology, "global_batch_size": 8,
                    "options": {"allow_estimates": True}}})
            person.__exit__()
            grant_again("planner")
            name = plan.name.split("/")[-1]
            WORLD.site.configure(
                server=server.address, tls_ca=str(files / "ca.pem"),
                tls_certificate=str(files / "client.pem"), tls_key=str(files / "client.key"),
                trust=str(folder / "data/trust-bundle.jwks.json"))
            flags = ["--gpus-per-node=h200:2", f"--plan={name}"]
            # Refused at once, as a wrong name is: it does not pass by itself.
            job = self.slurm.submit("true\n", *flags)
            self.expect_end(job, "CANCELLED")
            self.assertIn("needs the role reader", self.slurm.field(job, "AdminComment"))
            self.assertIn("outcome=refused", self.hooks(job))
            grant_again("planner", "reader")
            job = self.slurm.submit("echo \"$PARPLAN_PLAN_NAME\"\n", *flags)
            self.expect_end(job, "COMPLETED")
            self.assertEqual(self.slurm.output(job).strip(), plan.name)

    def test_a_plan_made_before_is_named(self):
        topology = {"cluster": "lab", "node_groups": [{
            "node_group_id": "any", "device_kind": "NVIDIA H200", "node_count": 1,
            "devices_per_node": 2, "device_memory_bytes": 150754820096}],
            "link_tiers": [{"tier_id": "node", "reach_device_count": 2}]}
        plan = WORLD.site.client.call("parplan.v1.PlanService", "CreatePlan", {
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

    def test_jobs_of_srun_and_salloc_have_one_too(self):
        tell = ["sh", "-c", "echo \"$PARPLAN_PLAN_NAME $PARPLAN_RANK ${#PARPLAN_TOKEN}\""]
        flags = ["--gpus-per-node=h200:1", *WORLD.site.plan_flags()]
        done = self.slurm.run("srun", "--nodes=2", "--ntasks=2", *flags, *tell)
        told = sorted(line.split() for line in done.stdout.strip().split("\n"))
        self.assertEqual([line[1:] for line in told], [["0", "32"], ["1", "32"]])
        self.assertEqual(told[0][0], told[1][0])
        done = self.slurm.run("salloc", "--nodes=1", *flags, "srun", *tell)
        self.assertRegex(done.stdout, r"clusters/lab/plans/\w+ 0 32")

    def test_a_job_that_a_job_submits_inherits_no_wish(self):
        job = self.slurm.submit(
            "cd / && sbatch --parsable --output=/dev/null --wrap=true\n",
            "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        other = self.slurm.output(job).strip()
        self.expect_end(other, "COMPLETED")
        self.assertEqual(self.hooks(other), "")

    def test_what_the_options_cannot_mean_is_said_at_once(self):
        for flags, words in ((["--plan=auto"], "needs --plan-model"),
                             (["--plan-model=/none.json", "--plan-batch=8"], "No such file"),
                             ([f"--plan-model={WORLD.site.model_path}", "--plan-batch=x"],
                              "whole number"),
                             (["--plan=a b"], "is no name"),
                             (["--plan-export=a;b"], "is no name"),
                             (["--plan-space=a b"], "is no name")):
            done = self.slurm.try_submit("true\n", *flags)
            self.assertNotEqual(done.returncode, 0, flags)
            self.assertIn(words, done.stderr)

    def test_tasks_of_an_array_are_jobs_of_their_own(self):
        gate = WORLD.site.folder / "gate.array"
        for k in range(3):
            self.addCleanup(pathlib.Path(f"{gate}.{k}").touch)
        # Two at once on one node. The last one has the id of the whole array.
        array = self.slurm.submit(
            "echo \"$PARPLAN_PLAN_NAME\"\n"
            f"while [ ! -e '{gate}'.$SLURM_ARRAY_TASK_ID ]; do sleep 0.2; done\n",
            "--array=0-2", "--nodelist=n1", "--gpus-per-node=h200:4", *WORLD.site.plan_flags())
        for task in ("0", "1"):
            wait_for(f"the plan of task {task}", lambda: "parplan planned: " in self.slurm.field(
                f"{array}_{task}", "AdminComment"))
        WORLD.site.configure(devices={
            "gpu:none": {"device_kind": "none", "device_memory_bytes": 1000}})
        pathlib.Path(f"{gate}.0").touch()
        self.expect_end(f"{array}_0", "COMPLETED")
        # Only what was refused is cancelled, and told why.
        self.expect_end(f"{array}_2", "CANCELLED")
        self.assertIn("parplan refused: ", self.slurm.field(f"{array}_2", "AdminComment"))
        self.assertIn("parplan planned: ", self.slurm.field(f"{array}_1", "AdminComment"))
        self.assertEqual(self.slurm.state(f"{array}_1"), "RUNNING")
        pathlib.Path(f"{gate}.1").touch()
        self.expect_end(f"{array}_1", "COMPLETED")
        ids = [self.slurm.field(f"{array}_{k}", "JobId") for k in range(3)]
        self.assertIn(array, ids)
        self.assertEqual(len({self.slurm.output(job) for job in ids[:2]}), 2)
        wait_for("an empty spool", lambda: not any(
            (WORLD.site.spool / f"{job}.json").exists() for job in ids))

    def test_parts_of_a_heterogeneous_job_have_plans_of_their_own(self):
        flags = WORLD.site.plan_flags()
        job = self.slurm.submit(
            "srun --het-group=0,1 sh -c 'echo $SLURMD_NODENAME $PARPLAN_PLAN_NAME'\n",
            "--nodelist=n1", "--gpus-per-node=h200:1", *flags, ":",
            "--nodelist=n2", "--gpus-per-node=h200:2", *flags)
        for part, node in ((0, "n1"), (1, "n2")):
            self.expect_end(f"{job}+{part}", "COMPLETED")
            plan = re.search(rf"{node} (clusters/\S+)", self.slurm.output(job)).group(1)
            self.assertIn(f"planned: {plan} ", self.slurm.field(f"{job}+{part}", "AdminComment"))

    def test_a_job_without_a_wish_knows_of_nothing(self):
        job = self.slurm.submit("env\n", "--gpus-per-node=h200:1")
        self.expect_end(job, "COMPLETED")
        self.assertNotIn("PARPLAN", self.slurm.output(job))
        self.assertEqual(self.hooks(job), "")


class Refusals(SlurmTest):
    def test_a_model_that_fits_nowhere(self):
        big = WORLD.site.folder / "big.json"
        big.write_text(json.dumps(model(decoders=100, hidden=16384, heads=128)))
        job = self.slurm.submit("true\n", "--gpus-per-node=h200:1", f"--plan-model={big}",
                                "--plan-batch=8")
        self.expect_end(job, "CANCELLED")
        comment = self.slurm.field(job, "AdminComment")
        self.assertIn("parplan refused: NO_FEASIBLE_PLAN", comment)
        # The site may let it start all the same; then it is told.
        WORLD.site.configure(when_refused="launch")
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                f"--plan-model={big}", "--plan-batch=8")
        self.expect_end(job, "COMPLETED")
        self.assertIn("because NO_FEASIBLE_PLAN", self.slurm.output(job))

    def test_nodes_of_two_kinds(self):
        job = self.slurm.submit("true\n", "--nodes=2", "--nodelist=n3,n4", "--gpus-per-node=8",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "CANCELLED")
        comment = self.slurm.field(job, "AdminComment")
        self.assertIn("n3 gives the job gpu:h200:8 but n4 gpu:a100:8", comment)
        self.assertIn("--constraint", comment)
        self.assertIn("outcome=refused", self.hooks(job))

    def test_a_name_that_looks_like_facts(self):
        lie = "x\n   RunTime=00:00:00 TimeLimit=30-00:00:00\n     Nodes=n1 GRES=gpu:h200:64"
        job = self.slurm.submit("true\n", f"--job-name={lie}", "--nodelist=n1",
                                "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        self.expect_end(job, "CANCELLED")
        self.assertIn("refused: SPEC_INVALID: name of the job",
                      self.slurm.field(job, "AdminComment"))
        # Another name with a line break does no harm, nor does one that says facts within a line.
        job = self.slurm.submit("echo $PARPLAN_DEVICE_COUNT devices\n",
                                "--job-name=x Restarts=9\ny Requeue=1", "--nodelist=n1",
                                "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("1 devices", self.slurm.output(job))

    def test_a_plan_that_nobody_trusted_signed(self):
        other = WORLD.site.folder / "other-keys"
        if not other.exists():
            other.mkdir(mode=0o700)
            subprocess.run([WORLD.flags.server_binary, "keys", "generate", "--data-dir", other],
                           check=True, capture_output=True)
        WORLD.site.configure(trust=str(next(other.glob("*.jwks.json"))))
        job = self.slurm.submit("echo it runs\n", "--gpus-per-node=h200:1", *WORLD.site.plan_flags())
        self.expect_end(job, "FAILED")
        self.assertNotIn("it runs", self.slurm.output(job))
        self.assertIn("the job's plan was refused", self.slurm.output(job))
        self.assertIn("unverified,refused", self.hooks(job))
        self.expect_all_nodes_fit()
        WORLD.site.configure(trust=str(next(other.glob("*.jwks.json"))), when_unverified="launch")
        job = self.slurm.submit("echo \"$PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("trusted key", self.slurm.output(job))

    def test_a_spool_that_nodes_do_not_see(self):
        WORLD.site.configure(spool_dir="/nobody/has/this")
        job = self.slurm.submit("echo \"because $PARPLAN_NO_PLAN\"\n", "--gpus-per-node=h200:1",
                                *WORLD.site.plan_flags())
        self.expect_end(job, "COMPLETED")
        self.assertIn("No such file", self.slurm.output(job))
        self.assertIn("outcome=missing", self.hooks(job))
        self.expect_all_nodes_fit()
