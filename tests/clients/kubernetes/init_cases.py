"""A plan comes to the pod, or the pod is told why there is none."""
import json
import os
import pathlib
import subprocess
import tempfile
import threading

import parplan_process as parplan
from machine import PATIENCE_SECONDS
from sidecar_case import (FLAGS, MISSING, NOT_FOUND, NOTHING_FITS, OK, PLANS, REFUSED, UNAVAILABLE,
                          WRONG, SidecarTest)


def gpt_question():
    """Asks for a plan that every program runs: of data sheets, and nothing but data parallelism."""
    size = {"hidden_size": 512, "sequence_length": 256}
    runs = [("embedding", 1), ("decoder", 4), ("head", 1)]
    return {
        "model": {
            "model_id": "gpt", "precision": "PRECISION_BF16", "optimizer": "OPTIMIZER_ADAM",
            "layer_definitions": [
                {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
                 "vocabulary_size": 1024, **size},
                {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER",
                 "attention_head_count": 8, "feed_forward_size": 2048,
                 "feed_forward_kind": "FEED_FORWARD_KIND_GELU", **size},
                {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD",
                 "vocabulary_size": 1024, **size}],
            "layer_runs": [{"layer_definition_id": name, "layer_count": count}
                           for name, count in runs]},
        "topology": {"cluster": "lab", "node_groups": [{
            "node_group_id": "nodes", "device_kind": "NVIDIA H200", "node_count": 1,
            "devices_per_node": 2, "device_memory_bytes": 150754820096}],
            "link_tiers": [{"tier_id": "nvlink", "reach_device_count": 2}]},
        "global_batch_size": 16,
        "options": {"allow_estimates": True, "space": "none", "runtime_id": "megatron-core"}}


class InitTest(SidecarTest):
    def test_the_plan_of_a_job_comes_with_its_environment(self):
        with self.serve() as server:
            self.upload(server)
            self.create(server, "other-job")
            plan = self.create(server, "job-1")
            self.create(server, "third-job")
            done = self.init("--server", server.address, "--cluster", "lab", "--job", "job-1",
                             "--master-address", "10.0.0.7", "--master-port", "29500")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(done.stdout.strip(), plan.name)
        self.assertEqual(self.read("generation"), "1\n")
        # The signed bytes are those of the server.
        envelope = json.loads(self.read("plan.dsse.json"))
        self.assertEqual(len(envelope["signatures"]), len(plan.signed_plan.signatures))
        shared = self.environment("plan.env")
        self.assertEqual(shared["PARPLAN_PLAN"], str(self.plan / "plan.dsse.json"))
        self.assertEqual(shared["PARPLAN_PLAN_NAME"], plan.name)
        self.assertEqual(shared["PARPLAN_JOB_ID"], "job-1")
        self.assertEqual((shared["MASTER_ADDR"], shared["MASTER_PORT"]), ("10.0.0.7", "29500"))
        for device in (0, 1):
            rank = self.environment(f"rank-{device}.env")
            self.assertEqual((rank["RANK"], rank["LOCAL_RANK"], rank["WORLD_SIZE"]),
                             (str(device), str(device), "2"))
            self.assertEqual(rank["PARPLAN_PLAN_NAME"], plan.name)
        ranks = json.loads(self.read("ranks.json"))
        self.assertEqual([entry["rank"] for entry in ranks["ranks"]], [0, 1])
        # Its own file, with the model and the topology it was made for.
        again = self.init("--file", self.plan / "plan.dsse.json", "--model",
                          self.plan / "model.json", "--topology", self.plan / "topology.json")
        self.assertEqual(again.returncode, OK, again.stderr)
        self.assertEqual(self.read("generation"), "2\n")
        self.assertEqual(json.loads(self.read("plan.dsse.json")), envelope)

    def test_the_files_of_other_programs_come_too(self):
        with self.serve() as server:
            self.upload(server)
            plan = self.create(server, spec=gpt_question())
            by_name = ("--server", server.address, "--plan", plan.name)
            done = self.init(*by_name, "--export", "megatron,galvatron")
            self.assertEqual(done.returncode, OK, done.stderr)
            shared = self.environment("plan.env")
            self.assertEqual(shared["PARPLAN_EXPORT_MEGATRON"], str(self.plan / "megatron"))
            self.assertEqual(shared["PARPLAN_GRADIENT_ACCUMULATION_STEPS"],
                             shared["PARPLAN_MICRO_BATCH_COUNT"])
            arguments = pathlib.Path(shared["PARPLAN_EXPORT_MEGATRON"], "megatron.args").read_text()
            self.assertIn("--num-layers=4\n", arguments)
            self.assertIn(f"--micro-batch-size={shared['PARPLAN_MICRO_BATCH_SIZE_PER_RANK']}\n",
                          arguments)
            self.assertIn("pp_deg", json.loads(self.read("galvatron/galvatron_config.json")))
            # An annotation of the pod arrives as a variable; without one it is empty.
            for value, is_there in (("galvatron", True), ("", False)):
                done = self.init(*by_name, env={**os.environ, "PARPLAN_EXPORT": value})
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertFalse((self.plan / "megatron").exists())
                self.assertEqual((self.plan / "galvatron").exists(), is_there)
            # The server makes the same files.
            with parplan.Client(server.address, self.credentials) as client:
                answer = client.call(PLANS, "ExportPlan", {"name": plan.name, "target": "megatron"})
            files = {file.name: file.content.decode() for file in answer.files}
            self.assertEqual(files["megatron.args"], arguments)
            for target, words in (("nemo", "must be one of"), ("megatron,megatron", "twice")):
                done = self.init(*by_name, "--export", target)
                self.assertEqual(done.returncode, WRONG, done.stderr)
                self.assertIn(words, done.stderr)
            # A model that Megatron-LM does not run: nothing is approximated, nothing is written.
            other = self.create(server, "job-2")
            done = self.init("--server", server.address, "--plan", other.name, "--export",
                             "megatron")
            self.assertNotEqual(done.returncode, OK)
            self.assertIn("Megatron-LM can't run that", done.stderr)
            self.assertEqual(self.environment("plan.env")["PARPLAN_PLAN_NAME"], plan.name)

    def test_it_waits_for_server_and_plan(self):
        with self.serve() as server:
            self.upload(server)
            address = server.address
            waiting = subprocess.Popen(
                [str(part) for part in
                 (FLAGS.bin / "parplan-sidecar", "init", "--trust", self.trust, "--volume",
                  self.plan, "--server", address, "--cluster", "lab", "--job", "job-1",
                  "--deadline", "10m")], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                line = waiting.stderr.readline()
                self.assertIn("has no plan of job `job-1` yet", line)
                plan = self.create(server, "job-1")
                self.assertEqual(waiting.wait(PATIENCE_SECONDS), OK)
                self.assertEqual(waiting.stdout.read().strip(), plan.name)
            finally:
                waiting.kill()
                waiting.wait()
                waiting.stderr.close()
                waiting.stdout.close()

    def test_pods_that_ask_one_question_get_one_plan(self):
        with self.serve() as server:
            self.upload(server)
            question = self.folder / "question.json"
            question.write_text(json.dumps(parplan.small_question()))
            answers = []

            def ask(volume, job="job-1"):
                done = subprocess.run(
                    [str(part) for part in
                     (FLAGS.bin / "parplan-sidecar", "init", "--trust", self.trust, "--volume",
                      self.folder / volume, "--server", server.address, "--question", question,
                      "--job", job)],
                    capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
                answers.append((done.returncode, done.stdout))

            pods = [threading.Thread(target=ask, args=(f"pod-{i}",)) for i in range(4)]
            for pod in pods:
                pod.start()
            for pod in pods:
                pod.join()
            # One that comes when another answer would be given.
            with parplan.Client(server.address) as client:
                client.upload("clusters/lab/nodes/n0", "measured-again",
                              parplan.small_profile(3.0), PATIENCE_SECONDS)
                asked_anew = client.call(PLANS, "CreatePlan", parplan.small_question(
                    job_id="job-1"), PATIENCE_SECONDS)
            self.assertNotIn((OK, asked_anew.name + "\n"), answers)
            ask("late")
            self.assertEqual(len(set(answers)), 1, answers)
            self.assertEqual(answers[0][0], OK)
            # Another run is another job.
            ask("other", "job-2")
            self.assertEqual(answers[-1][0], OK)
            self.assertNotEqual(answers[-1], answers[0])

    def test_the_number_of_nodes_comes_from_the_pod(self):
        question = self.folder / "question.json"
        # On nodes of two devices.
        question.write_text(json.dumps({"parent": "clusters/lab", "spec": gpt_question()}))
        with self.serve() as server:
            base = ("--server", server.address, "--question", question, "--job", "job-1")

            def nodes(*flags, number=""):
                done = self.init(*base, "--node-rank", "0", "--master-address", "10.0.0.7", *flags,
                                 env={**os.environ, "PARPLAN_NODES": number})
                self.assertEqual(done.returncode, OK, done.stderr)
                return self.environment("plan.env")["PARPLAN_NODE_COUNT"]

            # Pods of one job with one question have the plan of their number.
            self.assertEqual(nodes(), "1")
            self.assertEqual(nodes(number="2"), "2")
            self.assertEqual(nodes("--nodes", "4", number="2"), "4")
            topology = json.loads(self.read("topology.json"))
            self.assertEqual(topology["node_groups"][0]["node_count"], 4)
            self.assertEqual(topology["link_tiers"][-1]["reach_device_count"], 8)
            for text in ("0", "two", "-1", "1.5"):
                done = self.init(*base, "--nodes", text)
                self.assertEqual(done.returncode, WRONG, done.stderr)
                self.assertIn("--nodes", done.stderr)
            named = json.loads(question.read_text())
            named["spec"]["topology"]["node_groups"][0]["node_names"] = ["n0"]
            question.write_text(json.dumps(named))
            done = self.init(*base, "--nodes", "2")
            self.assertEqual(done.returncode, WRONG, done.stderr)
            self.assertIn("--nodes: needs a topology", done.stderr)
            done = self.init("--server", server.address, "--plan", "clusters/lab/plans/x",
                             "--nodes", "2")
            self.assertEqual(done.returncode, WRONG, done.stderr)
            self.assertIn("--question", done.stderr)

    def test_each_failure_has_its_exit_code_and_changes_nothing(self):
        with self.serve() as server:
            self.upload(server)
            plan = self.create(server, "job-1")
            base = ("--server", server.address)
            self.assertEqual(self.init(*base, "--plan", plan.name).returncode, OK)
            before = self.read("plan.dsse.json")
            other_trust = self.folder / "other-trust.json"
            keys = json.loads(self.trust.read_text())
            with tempfile.TemporaryDirectory() as other, \
                    parplan.Server(FLAGS.bin / "parplan-server", other):
                other_trust.write_text(
                    (pathlib.Path(other) / "data" / "trust-bundle.jwks.json").read_text())
            self.assertNotEqual(keys, json.loads(other_trust.read_text()))
            too_large = parplan.small_question(1 << 20)
            too_large["spec"]["topology"]["node_groups"][0]["device_memory_bytes"] = 1 << 28
            nothing = self.folder / "nothing.json"
            nothing.write_text(json.dumps(too_large))
            unknown = parplan.small_question()
            unknown["spec"]["topology"]["node_groups"][0]["device_kind"] = "Unknown GPU"
            missing = self.folder / "missing.json"
            missing.write_text(json.dumps(unknown))
            soon = ("--deadline", "300ms")
            for arguments, code, words in (
                    (("--plan", "no-name"), WRONG, "--plan"),
                    (("--job", "job-1"), WRONG, "--cluster"),
                    ((*base, "--plan", plan.name, "--trust", "/nowhere"), WRONG, "/nowhere"),
                    ((*base, "--plan", plan.name, "--trust", other_trust), REFUSED,
                     "SIGNATURE_INVALID"),
                    ((*base, "--cluster", "lab", "--job", "job-1", "--trust", other_trust), REFUSED,
                     "SIGNATURE_INVALID"),
                    ((*base, "--plan", plan.name, "--job", "job-2"), REFUSED, "AUDIENCE_MISMATCH"),
                    ((*base, "--plan", plan.name, "--node-rank", "1"), WRONG, "--node-rank"),
                    ((*base, "--plan", "clusters/lab/plans/none", *soon), NOT_FOUND, "none"),
                    ((*base, "--cluster", "lab", "--job", "job-9", *soon), NOT_FOUND, "job-9"),
                    (("--server", "127.0.0.1:1", "--plan", plan.name, *soon), UNAVAILABLE, ""),
                    ((*base, "--question", nothing), NOTHING_FITS, "NO_FEASIBLE_PLAN"),
                    ((*base, "--question", missing), MISSING, "PROFILE_MISSING")):
                with self.subTest(arguments=arguments):
                    done = self.init(*arguments)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertEqual(self.read("plan.dsse.json"), before)
            changed = json.loads(before)
            changed["payload"] = changed["payload"][:-8] + "AAAAAAA="
            (self.folder / "changed.json").write_text(json.dumps(changed))
            done = self.init("--file", self.folder / "changed.json", "--model",
                             self.plan / "model.json", "--topology", self.plan / "topology.json")
            self.assertEqual(done.returncode, REFUSED, done.stderr)
        blocked = self.folder / "blocked"
        blocked.write_text("")
        done = self.init("--file", self.plan / "plan.dsse.json", "--model",
                         self.plan / "model.json", "--topology", self.plan / "topology.json",
                         "--volume", blocked)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("blocked", done.stderr)
